#!/usr/bin/python3
"""The source package, without its trial (`./run package source`): what is in it, and that it needs no flag.

It is gathered twice from a build that is configured here, and has the same bytes. Each source of the libraries is in it
or named as left out. One file of each folder compiles without a definition and without a flag, and the examples compile
as C. The headers of the precompiled package compile by themselves. Faults are planted, and must be found.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import package_platformio  # noqa: E402
import package_precompiled  # noqa: E402
import package_source  # noqa: E402  the tool under test
import package_source_trial  # noqa: E402
from package_documents import version  # noqa: E402

SECONDS_MAX = 60
TIME = 1_700_000_000  # of the files in the zip


def compile_one(compiler, source, *flags):
    done = subprocess.run([compiler, "-fsyntax-only", *map(str, flags), str(source)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS_MAX)
    assert done.returncode == 0 and not done.stdout, f"{source}:\n{done.stdout}"


def check_bytes(work, build):
    """The zip, made twice; its files."""
    for name in ("one", "two"):
        files = package_source.gather(build, version())
        package_source.write(work / f"{name}.zip", files, TIME)
    assert (work / "one.zip").read_bytes() == (work / "two.zip").read_bytes(), "two packages of one tree differ"
    size = (work / "one.zip").stat().st_size
    assert size <= package_source_trial.ZIP_BYTES_MAX, size
    with zipfile.ZipFile(work / "one.zip") as archive:
        assert archive.namelist() == sorted(f"{package_source.NAME}/{name}" for name in files)
    return files, size


def check_sources(build, files):
    """Every source of the libraries stands in the package, or is named; a planted one is found. No header of what is
    left out rides along, but for one whose declarations gs_init() shares."""
    found = package_source.libraries(build)
    names = {library.name for library in found}
    wanted = {"gs_runtime", "gs_link", "gs_firmware", "gs_tls", "gs_wire", "gs_c_port", "gradstream_mbedcrypto"}
    assert wanted <= names, names
    inside = package_source.Gatherer(build)
    places = {path for library in found for path in library.sources if f"src/{inside.place(path)}" in files}
    assert not package_source.missing(found, places), "the package lacks a source"
    lacking = next(path for path in places if path.name == "client_task.cc")
    assert package_source.missing(found, places - {lacking}) == [lacking], "a source that is missing is not found"
    headers = {name for name in package_source.LEFT_OUT if f"src/{name.removesuffix('.cc')}.h" in files}
    assert headers == {"firmware/client_main.cc"}, f"headers without a source: {sorted(headers)}"
    found[0].definitions.add("GS_PLANTED")
    try:
        package_source.check_definitions(found)
    except package_source.Failure as failure:
        assert "GS_PLANTED" in str(failure), failure
    else:
        sys.exit("FAIL: a definition that the package lacks is not found")


def check_licences(files):
    origins = {name.split("/")[1].split(".")[0] for name in files if name.startswith("licences/")}
    assert origins == {"mbedtls", "nanopb", "libsodium"}, origins
    page = (package_source.ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    for name in ("Mbed TLS", "nanopb", "libsodium"):
        assert f"| {name}" in page, name


def check_includes(package):
    """By the compiler of this machine, one file of each folder."""
    source = package / "src"
    seen = set()
    for path in package_precompiled.sources_in(source):
        if path.parent in seen:
            continue
        seen.add(path.parent)
        if path.suffix == ".cc":
            compile_one("g++", path, "-std=gnu++20", "-Os", "-Wall", "-Wextra", f"-I{source}")
        else:
            compile_one("gcc", path, "-Os", "-Wall", "-Wextra", f"-I{source}")
    for path in sorted((package / "examples").rglob("*.c")):
        standard = "-std=gnu11" if path.stem == "linux" else "-std=c11"
        compile_one("gcc", path, standard, "-Wall", "-Wextra", f"-I{source}")
    compile_one("gcc", package / "sockets" / "link.c", "-std=gnu11", "-Wall", "-Wextra", f"-I{source}")
    assert not (source / "boards" / "sockets" / "link.c").exists(), "each build would have this link"
    return len(seen)


def check_precompiled(work, files):
    """Its headers include nothing that it lacks. The libraries, which this test does not compile, are left out."""
    path = package_precompiled.make(files, {}, work, version(), TIME)
    package = package_source_trial.unpack(path, work / "precompiled")
    compile_one("gcc", package / "examples" / "super_loop" / "super_loop.c", "-std=c11", f"-I{package / 'src'}")
    compile_one("gcc", package / "src" / "gradstream.h", "-std=c11", f"-I{package / 'src'}")


def check_missing_compiler(work, package):
    """A compiler that is not there counts as an error of the matrix, though no compiler says so: by ninja, CMake and
    make."""
    core = package_precompiled.Core("none", "gradstream-no-compiler", "gradstream-no-compiler")
    small = work / "small"
    shutil.copytree(package / "examples", small / "examples")
    shutil.copy(package / "CMakeLists.txt", small)
    source = small / "src" / "one.c"
    source.parent.mkdir()
    source.write_text("int one;\n", encoding="utf-8")
    edges = package_precompiled.edges_of(core, [source], source.parent, "")
    said = package_precompiled.compile_all(work / "none", edges, keep_going=True)
    assert "\nerror: ninja failed with exit status" in said, said
    for build in (package_source_trial.by_cmake, package_source_trial.by_make):
        said = build(core, small, work / build.__name__)
        assert "\nerror: product was not built" in said, said


def check_pip(work):
    """An index that cannot be reached is told from a pip that fails."""
    if importlib.util.find_spec("ensurepip") is None:  # ./run package source installs it, and ./run test does without
        print("source_package: pip is not tried, as python3-venv is not installed")
        return
    python = package_platformio.make_venv(work / "venv")
    os.environ["PIP_INDEX_URL"] = "https://127.0.0.1:1/simple"
    assert not package_platformio.pip_install(python), "pip installs from nowhere"
    try:
        package_platformio.pip_install(python, ("no package name",))
    except package_source.Failure as failure:
        assert "no package name" in str(failure), failure
    else:
        sys.exit("FAIL: a pip that fails is taken for an index that cannot be reached")


def main():
    with tempfile.TemporaryDirectory(prefix="gradstream-source-") as name:
        work = pathlib.Path(name)
        build = work / "list"
        package_source.configure(build)
        files, size = check_bytes(work, build)
        check_sources(build, files)
        check_licences(files)
        package = package_source_trial.unpack(work / "one.zip", work / "unpacked")
        folders = check_includes(package)
        check_precompiled(work, files)
        check_missing_compiler(work, package)
        check_pip(work)
    print(f"source_package: {len(files)} files, zip of {size} bytes, a file of each of {folders} folders compiles")


if __name__ == "__main__":
    main()
