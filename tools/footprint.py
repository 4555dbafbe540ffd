#!/usr/bin/python3
"""./run footprint: flash and RAM of the mps2-an386 client image, term by term, from its ELF and linker map.

The image is the one for silicon: TLS 1.3 with psk_dhe_ke, nanopb, both solvers, no semihosting, samples not counted.
The exit status says whether it keeps within its bars and links no allocator, exceptions or semihosting.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "mps2-an386"
TARGET = "gradstream_client"
IMAGE = BUILD / "boards" / "mps2_an386" / f"{TARGET}.elf"
TOOLS = "arm-none-eabi-"
RAM_BEGIN = 0x20000000

FLASH_MAX = 96 * 1024
RAM_MAX = 40 * 1024
UNEXPLAINED_MAX = 1024
FORBIDDEN = re.compile(
    r"^(_sbrk|_sbrk_r|malloc|_malloc_r|calloc|_calloc_r|realloc|_realloc_r|free|_free_r|_Zn[wa]\w*|_Zd[la]\w*|"
    r"__cxa_throw|__cxa_allocate_exception|_Unwind_\w+|__cxa_guard_acquire|printf|sprintf|snprintf|_svfprintf_r)$")

# Component of an archive or object in the map; what is not named is the toolchain's.
COMPONENTS = [
    ("runtime", r"libgs_runtime\.a"), ("link", r"libgs_(link|tls)\.a"), ("nanopb", r"libgs_proto\.a"),
    ("mbedtls", r"libmbed\w+\.a"), ("firmware", r"libgs_firmware\.a|main\.cc"),
    ("board", r"(startup|board|port|silicon|no_entropy|no_storage)\.cc"),
]


def fail(reason, word):
    print(f"footprint: error: {reason}", file=sys.stderr)
    print(f"result: error={word}")
    raise SystemExit(1)


def tool(name, *arguments):
    return subprocess.run([TOOLS + name, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True).stdout


def build():
    done = subprocess.run([ROOT / "tools" / "build.sh", "mps2-an386", TARGET], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout)
        fail("the image does not build", "build")


def map_entries():
    """(section, address, size, file) of every input section that was kept."""
    text = IMAGE.with_suffix(".map").read_text(encoding="utf-8").partition("Linker script and memory map")[2]
    text = re.sub(r"\n\s{16,}(0x[0-9a-f]+\s+0x[0-9a-f]+ )", r" \1", text)
    for match in re.finditer(r"^ (\.[\w.$-]+|COMMON)\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+) (\S.*)$", text, re.M):
        if not re.match(r"\.(debug|comment|ARM\.attributes)", match[1]) and int(match[3], 16):
            yield match[1], int(match[2], 16), int(match[3], 16), match[4]


def component_of(file):
    name = file.rsplit("/", 1)[-1]
    folder = re.sub(r"\(.*", "", file)
    for component, pattern in COMPONENTS:
        if re.search(pattern, folder.rsplit("/", 1)[-1]) or re.match(pattern, name):
            return component
    return "toolchain"


def section_sizes():
    sizes = {}
    for name, size in re.findall(r"^(\.\S+)\s+(\d+)\s+\d+$", tool("size", "-A", IMAGE), re.M):
        sizes[name] = int(size)
    return sizes


def symbols():
    """name (demangled) -> size, of everything in RAM."""
    found = {}
    for line in tool("nm", "-S", "-C", IMAGE).splitlines():
        match = re.match(r"([0-9a-f]+) ([0-9a-f]+) \w (.+)", line)
        if match and int(match[1], 16) >= RAM_BEGIN:
            found[match[3]] = int(match[2], 16)
    return found


def type_sizes(names):
    """sizeof of the project's classes, from the debug information."""
    text = tool("readelf", "--debug-dump=info", IMAGE)
    sizes = {}
    for name in names:
        match = re.search(rf"DW_AT_name\s*:(?: \(indirect string, offset: 0x[0-9a-f]+\):)? {name}\s*\n"
                          r"(?:(?!DW_TAG).*\n){0,3}?.*DW_AT_byte_size\s*: (\d+)", text)
        if match is None:
            fail(f"no type {name} in the debug information", "debug_information")
        sizes[name] = int(match[1])
    return sizes


def flash_table(sizes):
    terms = collections.Counter()
    for section, address, size, file in map_entries():
        if address < RAM_BEGIN or section.startswith(".data"):
            terms[component_of(file)] += size
    total = sizes.get(".text", 0) + sizes.get(".ARM.exidx", 0) + sizes.get(".data", 0)
    terms["alignment, less strings merged"] = total - sum(terms.values())
    return total, terms.most_common()


def ram_table(sizes):
    names, types = symbols(), type_sizes(["Client", "TlsSession", "FrameReader"])
    symbol = {name.rsplit("::", 1)[-1]: size for name, size in names.items()}
    application = symbol["app"]
    terms = [
        ("stack", sizes[".stack"]),
        ("arena: model, correction, uploads, solver", symbol["arena_memory"]),
        ("TLS pool", symbol["tls_pool_memory"]),
        ("client state machine", types["Client"]),
        ("TLS contexts and output buffer", types["TlsSession"]),
        ("frame buffer, in", types["FrameReader"]),
        ("rest of the device (identity, samples, counters)", application - sum(types.values())),
        ("UART rings", symbol["receive_ring"] + symbol["transmit_ring"]),
    ]
    library = sum(size for section, address, size, file in map_entries()
                  if address >= RAM_BEGIN and component_of(file) == "mbedtls")
    terms.append(("Mbed TLS statics: random generator, key slots", library))
    total = sizes[".stack"] + sizes.get(".data", 0) + sizes.get(".bss", 0)
    rest = total - sum(size for _, size in terms)
    return total, terms + [("unexplained", rest)], rest


def print_table(title, total, bar, terms):
    print(f"{title}: {total} bytes of at most {bar}")
    for name, size in terms:
        print(f"  {size:7d}  {name}")


def main():
    build()
    sizes = section_sizes()
    flash, flash_terms = flash_table(sizes)
    ram, ram_terms, rest = ram_table(sizes)
    print_table("flash", flash, FLASH_MAX, flash_terms)
    print_table("static RAM", ram, RAM_MAX, ram_terms)
    faults = [f"{name} is linked" for name in
              (line.split()[-1] for line in tool("nm", IMAGE).splitlines()) if FORBIDDEN.match(name)]
    if re.search(r"\bbkpt\s+0x00ab", tool("objdump", "-d", IMAGE)):
        faults.append("semihosting is linked")
    faults += [f"{name} is {value}, at most {bar}" for name, value, bar in
               (("flash", flash, FLASH_MAX), ("static RAM", ram, RAM_MAX), ("unexplained RAM", rest, UNEXPLAINED_MAX))
               if value > bar]
    for fault in faults:
        print(f"footprint: error: {fault}", file=sys.stderr)
    print(f"result: smallest_flash_bytes={flash} smallest_ram_bytes={ram} unexplained_ram_bytes={rest} "
          f"faults={len(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
