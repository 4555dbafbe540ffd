#!/usr/bin/python3
"""./run footprint: flash and RAM of client images, term by term, from ELF and linker map; what each manifold adds to
them, and what each feature that an image may leave out does; and how long a flash lasts.

The images are those for silicon, with TLS 1.3 and nanopb, without semihosting and samples: one for each board, with
psk_dhe_ke and both solvers, and the two smallest, for a Cortex-M3, with the zeroth-order projection algorithm on the
Stiefel manifold, by psk_dhe_ke and by psk_ke. Their twins for the emulator train a few rounds, and tell the high waters
of stack, TLS pool and arena. The exit status says whether the images keep within their bars, the stack is 1.5 times
what was used of it, and neither allocator, exceptions nor semihosting are linked. The latter is also asked of the
STM32F405's images for other crystals.
"""

import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple

import digest
import digits
import emulate
import fleet

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = "gradstream_client"
TOOLS = "arm-none-eabi-"  # these read images of any processor; instructions and what LTO made are for its own
# What calls an emulator, as objdump writes it.
SEMIHOSTING = {"arm-none-eabi-": r"\bbkpt\s+0x00ab", "riscv64-unknown-elf-": r"\bslli?\s+zero,zero,0x1f"}


class Image(NamedTuple):
    preset: str
    what: str
    board: str  # folder in boards/
    ram_max: int | None = None  # None: no bar
    flash_max: int | None = None
    trial_seconds_max: int = 120

    @property
    def path(self):
        return ROOT / "build" / self.preset / "boards" / self.board / f"{TARGET}.elf"

    @property
    def twin(self):
        """The same for the emulator."""
        return self.path.with_name(f"{TARGET}_emulator.elf")


IMAGES = (
    Image("mps2-an386", "Cortex-M4F, psk_dhe_ke, both solvers", "mps2_an386", 31 * 1024, 107 * 1024),
    Image("mps2-an386-eth", "the same by Ethernet, with lwIP", "mps2_an386_eth", 48 * 1024, 132 * 1024),
    Image("mps2-an385", "Cortex-M3, soft float", "mps2_an385"),
    Image("mps2-an500", "Cortex-M7", "mps2_an500"),
    Image("mps3-an547", "Cortex-M55", "mps3_an547"),
    Image("stm32f405", "STM32F405, Cortex-M4F", "stm32f405"),
    # rp2040js takes 2 s for a step, beside nothing else.
    Image("riscv-virt", "RISC-V rv32imc, soft float", "riscv_virt", 32 * 1024, 137000),
    Image("riscv-virt-f", "RISC-V rv32imafc", "riscv_virt_f"),
    Image("rp2040", "Raspberry Pi Pico, Cortex-M0+", "rp2040", trial_seconds_max=400),
    Image("small", "Cortex-M4F, psk_dhe_ke, both solvers, features left out", "mps2_an386", 31 * 1024, 91000),
    Image("smallest-dhe", "Cortex-M3, psk_dhe_ke, zeroth order", "mps2_an385", 30 * 1024, 88 * 1024),
    Image("smallest", "Cortex-M3, psk_ke, zeroth order", "mps2_an385", 28 * 1024, 80000),
)
SILICON = ("stm32f405", "rp2040")  # those that users flash: also --barred looks at them
CRYSTALS = ("8mhz", "12mhz")  # of the STM32F405's other boards: boards/stm32f405/CMakeLists.txt
EMULATOR_WORD = b"overflow-stack"  # of boards/bare/emulator.cc
STACK_RESERVE_MIN = 1.5  # of the high water
TRIAL_CONFIG = ROOT / "experiments" / "demo.toml"
TRIAL_ROUNDS = 3
HANDSHAKE_MS_MAX = 60000  # of the emulated RP2040
UNEXPLAINED_MAX = 1024
# What an image may leave out (runtime/base/features.h).
FEATURES = ("units", "batches", "evaluation", "use", "tensors", "memory", "products", "encodings", "along", "bytes")
FEATURE_SECONDS_MAX = 1800  # of a build beside other work

# What a round writes to the log in flash: St(64,4), 5 steps of 16 directions, float32 (held by client_save_test).
ROUND_FLASH_BYTES = 3280
ERASE_CYCLES = 10000
PAGE_HEADER_BYTES = 32
LOG_PAGES = {"stm32f405": 128 * 1024, "rp2040": 64 * 1024}  # their boards' flash.cc

# What a manifold adds to a Cortex-M4F image that has none: the difference of two links of this program, in flash, and
# the scratch that it takes of the arena at a shape of 256 numbers.
MANIFOLD_PROGRAM = ("bench/footprint_main.cc", "tests/digest/digest_cortex_m.cc")
MANIFOLD_IMAGE = digest.CORTEX_M4F
MANIFOLDS = (
    ("kEuclideanOps", "Euclidean", 256, 1), ("kSphereOps", "sphere, projection", 256, 1),
    ("kObliqueOps", "oblique, projection", 64, 4), ("kStiefelOps", "Stiefel, polar", 64, 4),
    ("kStiefelQrOps", "Stiefel, qr", 64, 4), ("kStiefelExponentialOps", "Stiefel, exponential", 64, 4),
    ("kGrassmannOps", "Grassmann, polar", 64, 4), ("kGrassmannExponentialOps", "Grassmann, exponential", 64, 4),
    ("kSpdOps", "SPD, exponential", 16, 16), ("kSpdSecondOrderOps", "SPD, second order", 16, 16),
    ("kHyperbolicOps", "hyperbolic, exponential", 256, 1),
    ("kHyperbolicProjectionOps", "hyperbolic, projection", 256, 1),
    ("kFixedRankOps", "fixed rank, projection", 64, 4), ("kProductOps", "product of two Euclidean ones", 256, 1),
)
FORBIDDEN = re.compile(
    r"^(_sbrk|_sbrk_r|malloc|_malloc_r|calloc|_calloc_r|realloc|_realloc_r|free|_free_r|_Zn[wa]\w*|_Zd[la]\w*|"
    r"__cxa_throw|__cxa_allocate_exception|_Unwind_\w+|__cxa_guard_acquire|printf|sprintf|snprintf|_svfprintf_r)$")

LIBRARIES = "mbedtls and nanopb"
# Component of an archive or object; what is not named is the toolchain's.
COMPONENTS = [
    ("runtime", r"libgs_runtime\.a"), ("link", r"libgs_(link|tls|wire)\.a"), ("lwip", r"libgs_lwip\.a"),
    ("ethernet", r"^(lan9118|link|network_settings|ethernet)\.cc"),
    (LIBRARIES, r"libgs_proto\.a|lib(?:gradstream_)?mbed\w+\.a"), ("firmware", r"libgs_firmware\.a|main\.cc"),
    ("board", r"(start(up)?|board|port|uart_link|silicon|boot2|(no_)?entropy|no_storage|flash(_log|_storage)?)\.cc"),
]
# What was optimised as a whole stands in one object, whose sections have the names of functions and variables.
WHOLE = r"\.ltrans\d*\.o$"


def fail(reason, word):
    print(f"footprint: error: {reason}", file=sys.stderr)
    print(f"result: error={word}")
    raise SystemExit(1)


def tool(name, *arguments, tools=TOOLS):
    return subprocess.run([tools + name, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True).stdout


def tools_of(path):
    return "riscv64-unknown-elf-" if "RISC-V" in tool("readelf", "-h", path) else TOOLS


def build(preset, *targets):
    try:
        fleet.build(preset, *targets)
    except RuntimeError as failure:
        fail(str(failure), "build")


def high_waters(image):
    """{stack, tls, arena: bytes that were used} by the image's twin in a short run."""
    with tempfile.TemporaryDirectory(prefix="gradstream-footprint-") as folder:
        home, port = pathlib.Path(folder), fleet.free_port()
        emulator = [ROOT / "tools" / "emulate.py", image.board.replace("_", "-"), "--image", image.twin]
        config = ["--config", TRIAL_CONFIG]
        for key, value in {"server.listen": f"127.0.0.1:{port}", "server.database": home / "gradstream.db",
                           "server.export_dir": home, "server.allow_psk_ke": "true", "run.device_count": 1,
                           "server.limits.handshake_deadline_ms": HANDSHAKE_MS_MAX,
                           "run.round_count": TRIAL_ROUNDS}.items():
            config += ["--set", f"{key}={value}"]
        fleet.command([fleet.SERVER, "device", "add", "board", *config, "--out", home / "identity"], "enrolling")
        parts, mean = digits.shards(9)
        digits.write_shard(home / "shard.gsd", parts[0], mean)
        server = fleet.Process("server", [fleet.SERVER, "serve", *config])
        board = fleet.Process("board", [
            *emulator, "--server", f"127.0.0.1:{port}", "--identity", home / "identity", "--shard", home / "shard.gsd"])
        try:
            end = board.wait_for_line("event=finished", image.trial_seconds_max)
        finally:
            board.stop()
            server.stop()
        if end is None:
            fail(f"the trial of {image.preset} has no end:\n" + "\n".join([*board.lines, *server.lines]), "trial")
        return {name: int(fleet.fields(end)[name]) for name in ("stack", "tls", "arena")}


def stack_size(path):
    """Bytes of an image's stack."""
    return section_sizes(path)[".stack"]


def stack_fault(size, used):
    """What is wrong with a stack of that size, of which so much was used; None: nothing."""
    if size >= STACK_RESERVE_MIN * used:
        return None
    return f"stack is {size}, {STACK_RESERVE_MIN} times the {used} used are wanted"


def flash_size(sizes):
    return sum(sizes.get(name, 0) for name in (".boot2", ".text", ".ARM.exidx", ".data"))


def ram_size(sizes):
    return sum(sizes.get(name, 0) for name in (".stack", ".noinit", ".data", ".bss"))


def map_entries(path):
    """(section, address, size, file) of every input section that was kept."""
    text = path.with_suffix(".map").read_text(encoding="utf-8").partition("Linker script and memory map")[2]
    text = re.sub(r"\n\s{16,}(0x[0-9a-f]+\s+0x[0-9a-f]+ )", r" \1", text)
    for match in re.finditer(r"^ (\.[\w.$-]+|COMMON)\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+) (\S.*)$", text, re.M):
        if not re.match(r"\.(debug|comment|ARM\.attributes)", match[1]) and int(match[3], 16):
            yield match[1], int(match[2], 16), int(match[3], 16), match[4]


def component_of(file, section="", owners=None):
    """Of what stands in that section of a file; owners: owners_of() the image."""
    if owners is not None and re.search(WHOLE, file):
        symbol = section.partition(".")[2].partition(".")[2].partition(".")[0]  # without .constprop.0 and its like
        return owners.get(symbol, "strings and tables without a name")
    name = file.rsplit("/", 1)[-1]
    folder = re.sub(r"\(.*", "", file)
    for component, pattern in COMPONENTS:
        if re.search(pattern, folder.rsplit("/", 1)[-1]) or re.match(pattern, name):
            return component
    return "toolchain"


def archive_of(file):
    """The library that an object was put into, which may be none; ".../X.dir/..." is of libX.a, and
    ".../gradstream_X.dir/..." too: Mbed TLS's targets have a prefix, its files keep their names."""
    folder = next(folder for folder in file.parents if folder.suffix == ".dir")
    plain = folder.parents[1] / f"lib{folder.stem.removeprefix('gradstream_')}.a"
    return plain if plain.is_file() else folder.parents[1] / f"lib{folder.stem}.a"


def defined_names(tools, file):
    """Functions and variables of an object whose code is made when it is linked."""
    undefined = set(re.findall(r" U (\S+)$", tool("gcc-nm", "--quiet", file, tools=tools), re.M))
    listed = re.findall(r"^(?:function|variable)\s+\w+\s+[1-9]\d*\s+(\S+)",
                        tool("lto-dump", "-list", file, tools=tools), re.M)
    return {name.partition(".")[0] for name in listed if name not in undefined}


def owners_of(path):
    """{function or variable: component} of all that an image is linked of and that is optimised as a whole."""
    own = path.parent / "CMakeFiles" / f"{path.stem}.dir"
    components = {file: component_of(str(file)) for file in own.rglob("*.obj")}
    for file in path.parents[2].rglob("*.obj"):
        if (archive := archive_of(file)).is_file():
            components[file] = component_of(str(archive))
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        names = pool.map(functools.partial(defined_names, tools_of(path)), components)
    return {name: component for component, defined in zip(components.values(), names) for name in defined}


def section_sizes(path):
    sizes = {}
    for name, size in re.findall(r"^(\.\S+)\s+(\d+)\s+\d+$", tool("size", "-A", path), re.M):
        sizes[name] = int(size)
    return sizes


def ram_begin(path):
    """The stack lies at the bottom of the RAM."""
    return int(re.search(r"^\.stack\s+\d+\s+(\d+)$", tool("size", "-A", path), re.M)[1])


def symbols(path):
    """name (demangled) -> size, of everything in RAM."""
    found, begin = {}, ram_begin(path)
    for line in tool("nm", "-S", "-C", path).splitlines():
        match = re.match(r"([0-9a-f]+) ([0-9a-f]+) \w (.+)", line)
        if match and int(match[1], 16) >= begin:
            found[match[3]] = int(match[2], 16)
    return found


def type_sizes(path, names):
    """sizeof of the project's classes, from the debug information."""
    text = tool("readelf", "--debug-dump=info", path)
    sizes = {}
    for name in names:
        match = re.search(rf"DW_AT_name\s*:(?: \(indirect string, offset: 0x[0-9a-f]+\):)? {name}\s*\n"
                          r"(?:(?!DW_TAG).*\n){0,3}?.*DW_AT_byte_size\s*: (\d+)", text)
        if match is None:
            fail(f"no type {name} in the debug information", "debug_information")
        sizes[name] = int(match[1])
    return sizes


def flash_table(path, sizes):
    terms, owners, ram = collections.Counter(), owners_of(path), ram_begin(path)
    for section, address, size, file in map_entries(path):
        if address < ram or section.startswith(".data"):
            terms[component_of(file, section, owners)] += size
    total = flash_size(sizes)
    terms["alignment, less strings merged"] = total - sum(terms.values())
    return total, terms.most_common()


def ram_table(path, sizes):
    names, types = symbols(path), type_sizes(path, ["Client", "TlsSession", "FrameReader"])
    symbol = {name.rsplit("::", 1)[-1]: size for name, size in names.items()}
    application = symbol["the_app"]
    terms = [
        ("stack", sizes[".stack"]),
        ("arena: model, correction, uploads, solver", symbol["arena_memory"]),
        ("TLS pool", symbol["tls_pool_memory"]),
        ("client state machine", types["Client"]),
        ("TLS contexts and output buffer", types["TlsSession"]),
        ("frame buffer, in", types["FrameReader"]),
        ("rest of the device (identity, samples, counters)", application - sum(types.values())),
    ]
    if "receive_ring" in symbol:
        terms.append(("UART rings", symbol["receive_ring"] + symbol["transmit_ring"]))
    owners, begin = owners_of(path), ram_begin(path)
    for component, what in (("ethernet", "Ethernet: ring of what was received, driver, settings"),
                            ("lwip", "lwIP: heap of its own, buffers, connections"),
                            (LIBRARIES, "Mbed TLS statics: random generator, key slots")):
        size = sum(size for section, address, size, file in map_entries(path)
                   if address >= begin and component_of(file, section, owners) == component)
        terms += [(what, size)] * (size > 0)
    total = ram_size(sizes)
    rest = total - sum(size for _, size in terms)
    return total, terms + [("unexplained", rest)], rest


def print_table(title, total, bar, terms):
    print(f"{title}: {total} bytes" + (f" of at most {bar}" if bar is not None else ""))
    for name, size in terms:
        print(f"  {size:7d}  {name}")


def calls_emulator(path):
    """Whether an image has semihosting."""
    tools = tools_of(path)
    return re.search(SEMIHOSTING[tools], tool("objdump", "-d", path, tools=tools)) is not None


def linked_faults(path):
    """What an image for silicon must not have."""
    faults = [f"{name} is linked" for name in
              (line.split()[-1] for line in tool("nm", path).splitlines()) if FORBIDDEN.match(name)]
    if calls_emulator(path):
        faults.append("semihosting is linked")
    if EMULATOR_WORD in path.read_bytes():
        faults.append("the emulator's words, which make the board fail, are linked")
    return faults


def print_faults(name, faults):
    for fault in faults:
        print(f"footprint: error: {name}: {fault}", file=sys.stderr)
    return len(faults)


def check_linked(image, target):
    """Builds an image, and prints its size alone; how many faults it has."""
    build(image.preset, target)
    path = image.path.with_stem(target)
    sizes = section_sizes(path)
    print(f"==== {image.preset}, {target}: {flash_size(sizes)} bytes of flash, {ram_size(sizes)} of static RAM")
    return print_faults(image.preset, linked_faults(path))


class Row(NamedTuple):
    """One image's figures, bytes; faults: how many."""
    flash: int
    ram: int
    unexplained: int
    stack: int  # the high water, as the next two
    reserve: float
    tls: int
    arena: int
    faults: int


def report(image):
    """Prints the tables of one image; its Row."""
    build(image.preset, image.path.stem, image.twin.stem)
    sizes = section_sizes(image.path)
    flash, flash_terms = flash_table(image.path, sizes)
    ram, ram_terms, rest = ram_table(image.path, sizes)
    print(f"==== {image.preset}: {image.what}")
    print_table("flash", flash, image.flash_max, flash_terms)
    print_table("static RAM", ram, image.ram_max, ram_terms)
    used = high_waters(image)
    stack = sizes[".stack"]
    print(f"used, in {TRIAL_ROUNDS} rounds: stack {used['stack']} (it has {stack / used['stack']:.2f} times that), "
          f"TLS pool {used['tls']}, arena {used['arena']}", flush=True)
    faults = linked_faults(image.path)
    if fault := stack_fault(stack, used["stack"]):
        faults.append(fault)
    faults += [f"{name} is {value}, at most {bar}" for name, value, bar in
               (("flash", flash, image.flash_max), ("static RAM", ram, image.ram_max),
                ("unexplained RAM", rest, UNEXPLAINED_MAX)) if bar is not None and value > bar]
    return Row(flash, ram, rest, used["stack"], stack / used["stack"], used["tls"], used["arena"],
               print_faults(image.preset, faults))


def print_rows(rows):
    print(f"==== all of them; stack, TLS pool and arena: what {TRIAL_ROUNDS} rounds used")
    print("   flash    RAM  stack  reserve  TLS pool   arena")
    for name, row in rows.items():
        print(f"  {row.flash:6d}  {row.ram:5d}  {row.stack:5d}  {row.reserve:7.2f}  {row.tls:8d}  {row.arena:6d}  "
              f"{name}")


def compile_runtime(folder):
    """Objects of the runtime as the first image has it, but each with its machine code."""
    commands = json.loads((ROOT / "build" / IMAGES[0].preset / "compile_commands.json").read_text(encoding="utf-8"))

    def compile_one(entry):
        words = shlex.split(entry["command"])
        place = words.index("-o") + 1
        words[place] = folder / words[place].replace("/", "_")
        subprocess.run([*words, "-fno-lto"], cwd=entry["directory"], check=True)
        return words[place]

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(compile_one, [entry for entry in commands if "/gs_runtime.dir/" in entry["command"]]))


def compile_manifold_program(folder):
    """Its objects and the runtime's, with the flags of the first image."""
    flags = f"{digest.COMMON} {MANIFOLD_IMAGE.flags} {digest.CONTRACT_OFF} -DGS_BARE_METAL=1".replace("-O2", "-Os")
    objects = compile_runtime(folder)
    for source in MANIFOLD_PROGRAM:
        objects.append(folder / pathlib.Path(source).with_suffix(".o").name)
        subprocess.run([TOOLS + "g++", *flags.split(), "-c", source, "-o", objects[-1]], cwd=ROOT, check=True)
    return objects


def link_manifold(objects, folder, table, rows, cols):
    """(flash, scratch of the arena) of the program with that table; None: without one, and then without scratch."""
    build = MANIFOLD_IMAGE._replace(name=folder / (table or "none"))
    build.program.parent.mkdir(parents=True, exist_ok=True)
    names = {"chosen_ops": table, "part_ops": "kEuclideanOps" if table == "kProductOps" else None}
    words = [f"-Wl,--defsym=_ZN10gradstream11chosen_rowsE={rows},--defsym=_ZN10gradstream11chosen_colsE={cols}"]
    for name, value in names.items():
        symbol = f"_ZN10gradstream{len(value)}{value}E" if value else "0"
        words += [f"-Wl,-u,{symbol}"] * bool(value)
        words.append(f"-Wl,--defsym=_ZN10gradstream{len(name)}{name}E={symbol}")
    # Optimised as a whole, so small a program would keep nothing of the table that it does not call.
    flags = f"{MANIFOLD_IMAGE.flags} {digest.BOARD_LINK} -fno-lto".split()
    subprocess.run([TOOLS + "g++", *flags, *words, *objects, "-o", build.program], cwd=ROOT, check=True)
    sizes = section_sizes(build.program)
    flash = sizes[".text"] + sizes.get(".ARM.exidx", 0) + sizes.get(".data", 0)
    if table is None:
        return flash, 0
    status, found, output = digest.execute(build)
    if status != 0 or "scratch" not in found:
        fail(f"the program with {table} does not run:\n{output}", "manifold")
    return flash, int(found["scratch"])


def print_manifolds():
    """A row for each manifold; how many rows."""
    folder = ROOT / "build" / "footprint"
    folder.mkdir(parents=True, exist_ok=True)
    objects = compile_manifold_program(folder)
    without, _ = link_manifold(objects, folder, None, 0, 0)
    print(f"==== what a manifold adds to a Cortex-M4F image (its program without one has {without} bytes of flash)")
    print("    flash  arena's scratch")
    for table, what, rows, cols in MANIFOLDS:
        flash, scratch = link_manifold(objects, folder, table, rows, cols)
        print(f"  {flash - without:7d}  {scratch:7d}  {what}, {rows} x {cols}")
    return len(MANIFOLDS)


def flash_without(features):
    """Flash of the first image without these features (GS_WITHOUT)."""
    preset = IMAGES[0].preset
    folder = ROOT / "build" / "footprint" / ("without_" + "_".join(features))
    for command in (["cmake", "--preset", preset, "-B", folder, f"-DGS_WITHOUT={';'.join(features)}"],
                    ["cmake", "--build", folder, "--target", TARGET]):
        try:
            fleet.command(command, f"building {preset} without {', '.join(features)}", FEATURE_SECONDS_MAX)
        except RuntimeError as failure:
            fail(str(failure), "build")
    return flash_size(section_sizes(folder / IMAGES[0].path.relative_to(ROOT / "build" / preset)))


def print_features(flash):
    """A row for each feature that an image may leave out, beside an image that leaves out none."""
    print(f"==== what a feature adds to a Cortex-M4F image, which has {flash} bytes of flash with all of them")
    for feature in FEATURES:
        print(f"  {flash - flash_without([feature]):7d}  {feature}", flush=True)
    print(f"  {flash - flash_without(FEATURES):7d}  all of them")


def print_endurance():
    print(f"==== flash of the client's state: {ROUND_FLASH_BYTES} bytes a round (St(64,4), 5 steps, 16 directions)")
    for board, page in LOG_PAGES.items():
        rounds = (page - PAGE_HEADER_BYTES) // ROUND_FLASH_BYTES
        print(f"  {board}: an erase in {rounds} rounds, {2 * rounds * ERASE_CYCLES:,} rounds in {ERASE_CYCLES:,} erase "
              "cycles of its two pages")


def main():
    if "GS_BUILD_DIR" not in os.environ:  # else a test, whose tree is built
        build("dev", fleet.SERVER.name)
    barred = sys.argv[1:] == ["--barred"]  # of the test: no trial of images without a bar of their own
    images = {image.preset: image for image in IMAGES}
    rows = {image.preset: report(image) for image in IMAGES if image.flash_max is not None or
            not barred and (image.preset != "rp2040" or emulate.RP2040JS.exists())}
    print_rows(rows)
    unreported = [preset for preset in SILICON if preset not in rows]
    linked = [(preset, TARGET) for preset in unreported]
    linked += [("stm32f405", f"{TARGET}_{crystal}") for crystal in (CRYSTALS[:1] if barred else CRYSTALS)]
    faults = sum(check_linked(images[preset], target) for preset, target in linked)
    if not barred and "rp2040" in unreported:
        print("without a trial of the RP2040: rp2040js is missing (install npm, then ./run setup)")
    manifolds = print_manifolds()
    if not barred:
        print_features(rows[IMAGES[0].preset].flash)
    print_endurance()
    smallest, smallest_dhe = rows["smallest"], rows["smallest-dhe"]
    faults += sum(row.faults for row in rows.values())
    print(f"result: smallest_dhe_flash_bytes={smallest_dhe.flash} smallest_dhe_ram_bytes={smallest_dhe.ram} "
          f"smallest_flash_bytes={smallest.flash} smallest_ram_bytes={smallest.ram} "
          f"unexplained_ram_bytes={smallest.unexplained} images={len(rows)} manifolds={manifolds} faults={faults}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
