#!/usr/bin/python3
"""./run footprint: flash and RAM of client images, term by term, from ELF and linker map; and how long a flash lasts.

The images are those for silicon, with TLS 1.3 and nanopb, without semihosting and samples: mps2-an386 with psk_dhe_ke
and both solvers, and the smallest one, for a Cortex-M3, with psk_ke and the zeroth-order projection algorithm on the
Stiefel manifold. The exit status says whether they keep within their bars and link no allocator, exceptions or semihosting.
"""

import collections
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = "gradstream_client"
TOOLS = "arm-none-eabi-"
RAM_BEGIN = 0x20000000


class Image(NamedTuple):
    preset: str
    what: str
    board: str
    ram_max: int

    @property
    def path(self):
        return ROOT / "build" / self.preset / "boards" / self.board / f"{TARGET}.elf"


IMAGES = (
    Image("mps2-an386", "Cortex-M4F, psk_dhe_ke, both solvers", "mps2_an386", 36 * 1024),
    Image("smallest", "Cortex-M3, psk_ke, zeroth order", "mps2_an385", 32 * 1024),
)
FLASH_MAX = 96 * 1024
UNEXPLAINED_MAX = 1024

# What a round writes to the log in flash: St(64,4), 5 steps of 16 directions, float32 (held by client_save_test).
ROUND_FLASH_BYTES = 3040
ERASE_CYCLES = 10000
PAGE_HEADER_BYTES = 32
LOG_PAGES = {"stm32f405": 128 * 1024, "rp2040": 64 * 1024}  # their boards' flash.cc
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


def build(preset):
    done = subprocess.run([ROOT / "tools" / "build.sh", preset, TARGET], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout)
        fail(f"the image of {preset} does not build", "build")


def map_entries(path):
    """(section, address, size, file) of every input section that was kept."""
    text = path.with_suffix(".map").read_text(encoding="utf-8").partition("Linker script and memory map")[2]
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


def section_sizes(path):
    sizes = {}
    for name, size in re.findall(r"^(\.\S+)\s+(\d+)\s+\d+$", tool("size", "-A", path), re.M):
        sizes[name] = int(size)
    return sizes


def symbols(path):
    """name (demangled) -> size, of everything in RAM."""
    found = {}
    for line in tool("nm", "-S", "-C", path).splitlines():
        match = re.match(r"([0-9a-f]+) ([0-9a-f]+) \w (.+)", line)
        if match and int(match[1], 16) >= RAM_BEGIN:
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
    terms = collections.Counter()
    for section, address, size, file in map_entries(path):
        if address < RAM_BEGIN or section.startswith(".data"):
            terms[component_of(file)] += size
    total = sizes.get(".text", 0) + sizes.get(".ARM.exidx", 0) + sizes.get(".data", 0)
    terms["alignment, less strings merged"] = total - sum(terms.values())
    return total, terms.most_common()


def ram_table(path, sizes):
    names, types = symbols(path), type_sizes(path, ["Client", "TlsSession", "FrameReader"])
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
    library = sum(size for section, address, size, file in map_entries(path)
                  if address >= RAM_BEGIN and component_of(file) == "mbedtls")
    terms.append(("Mbed TLS statics: random generator, key slots", library))
    total = sizes[".stack"] + sizes.get(".data", 0) + sizes.get(".bss", 0)
    rest = total - sum(size for _, size in terms)
    return total, terms + [("unexplained", rest)], rest


def print_table(title, total, bar, terms):
    print(f"{title}: {total} bytes of at most {bar}")
    for name, size in terms:
        print(f"  {size:7d}  {name}")


def report(image):
    """Prints the tables of one image; (flash, RAM, unexplained RAM, faults)."""
    build(image.preset)
    sizes = section_sizes(image.path)
    flash, flash_terms = flash_table(image.path, sizes)
    ram, ram_terms, rest = ram_table(image.path, sizes)
    print(f"==== {image.preset}: {image.what}")
    print_table("flash", flash, FLASH_MAX, flash_terms)
    print_table("static RAM", ram, image.ram_max, ram_terms)
    faults = [f"{name} is linked" for name in
              (line.split()[-1] for line in tool("nm", image.path).splitlines()) if FORBIDDEN.match(name)]
    if re.search(r"\bbkpt\s+0x00ab", tool("objdump", "-d", image.path)):
        faults.append("semihosting is linked")
    faults += [f"{name} is {value}, at most {bar}" for name, value, bar in
               (("flash", flash, FLASH_MAX), ("static RAM", ram, image.ram_max),
                ("unexplained RAM", rest, UNEXPLAINED_MAX)) if value > bar]
    for fault in faults:
        print(f"footprint: error: {image.preset}: {fault}", file=sys.stderr)
    return flash, ram, rest, len(faults)


def print_endurance():
    print(f"==== flash of the client's state: {ROUND_FLASH_BYTES} bytes a round (St(64,4), 5 steps, 16 directions)")
    for board, page in LOG_PAGES.items():
        rounds = (page - PAGE_HEADER_BYTES) // ROUND_FLASH_BYTES
        print(f"  {board}: an erase in {rounds} rounds, {2 * rounds * ERASE_CYCLES:,} rounds in {ERASE_CYCLES:,} erase "
              "cycles of its two pages")


def main():
    results = [report(image) for image in IMAGES]
    print_endurance()
    flash, ram, rest, _ = results[-1]
    faults = sum(result[3] for result in results)
    print(f"result: smallest_flash_bytes={flash} smallest_ram_bytes={ram} unexplained_ram_bytes={rest} faults={faults}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
