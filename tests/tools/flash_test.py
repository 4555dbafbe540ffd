#!/usr/bin/python3
"""./run flash, provision and monitor where something is missing: a board of that name, the tool, the hardware, the
image for its crystal. Each says it in a line, and what it would run; with all of it there they run just that. Nothing
is built here, and the tools are played: this needs no board, and reaches none.
"""

import contextlib
import io
import os
import pathlib
import struct
import sys
import tempfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import flash  # noqa: E402
import fleet  # noqa: E402
import gsn  # noqa: E402
import monitor  # noqa: E402
import provision  # noqa: E402

IDENTITY = "identity = kitchen\nkey = " + 32 * "07" + "\n"
PROGRAM = "'program {image} verify reset exit'"


class Bench:
    """A folder in the place of build/, and what is plugged in."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.volume = None
        self.tools = self.folder / "bin"
        self.tools.mkdir()
        (self.folder / "build" / "provision").mkdir(parents=True)
        self.identity = self.folder / "build" / "provision" / "kitchen.identity"
        self.identity.write_text(IDENTITY)

    def build(self, name, target):
        image = self.folder / f"{name}_{target}.elf"
        image.write_bytes(b"image")
        image.with_suffix(".uf2").write_bytes(b"uf2")
        return image

    def play_openocd(self, status):
        """An openocd that writes down what it is to do."""
        tool = self.tools / "openocd"
        tool.write_text(f'#!/bin/sh\necho "$@" >>{self.folder}/openocd.log\nexit {status}\n')
        tool.chmod(0o755)

    def run(self, module, *words):
        """(exit status, what it printed)"""
        out = io.StringIO()
        with contextlib.ExitStack() as stack:
            for patch in (mock.patch.object(sys, "argv", [module.__name__, *words]),
                          mock.patch.dict(os.environ, {"PATH": str(self.tools)}),
                          mock.patch.object(flash, "build", self.build),
                          mock.patch.object(flash, "image_size", lambda image: 5),
                          mock.patch.object(flash, "pico_volume", lambda: self.volume),
                          mock.patch.object(fleet, "ROOT", self.folder),
                          mock.patch.object(monitor, "CANDIDATES", (str(self.folder / "tty*"),)),
                          contextlib.redirect_stdout(out), contextlib.redirect_stderr(out)):
                stack.enter_context(patch)
            return module.main(), out.getvalue()

    def expect(self, status, words, module, *arguments, without=()):
        found = self.run(module, *arguments)
        missing = [word for word in words if word not in found[1]]
        missing += [f"no {word}" for word in without if word in found[1]]
        if found[0] != status or missing:
            raise SystemExit(f"FAIL: {module.__name__} {' '.join(arguments)}: exit status {found[0]}, not {status}; "
                             f"missing {missing} in:\n{found[1]}")


def check_names(bench):
    for module, more in ((flash, ()), (provision, ("kitchen",))):
        for name in ("toaster", "mps2-an386"):
            bench.expect(1, (f"error: {name} cannot be flashed (known: rp2040 stm32f405)", "./run emulate",
                             "result: error=failed"), module, name, *more)
    bench.expect(1, ("error: a device's name has letters, digits, dots and dashes, not ../etc",), provision, "rp2040",
                 "../etc")


def check_stm32(bench):
    image = f"{bench.folder}/stm32f405_gradstream_client"
    wanted = "flash: openocd -f interface/stlink.cfg -f target/stm32f4x.cfg -c "
    bench.expect(1, (wanted + PROGRAM.format(image=f"{image}.elf"), "openocd is missing: apt-get install openocd",
                     "flashed=no missing=openocd"), flash, "stm32f405")
    bench.play_openocd(1)
    bench.expect(1, (wanted, "openocd did not reach the board: plug the ST-Link in", "flashed=no missing=board"), flash,
                 "stm32f405")
    bench.play_openocd(0)
    bench.expect(0, ("for a crystal of 25 MHz (Netduino Plus 2); the crystals of other boards: --crystal",
                     "flashed=yes"), flash, "stm32f405")
    for crystal, image_name, board in (("25", "", "Netduino Plus 2"), ("12", "_12mhz", "Feather STM32F405"),
                                       ("8", "_8mhz", "Olimex STM32-H405")):
        bench.expect(0, (PROGRAM.format(image=f"{image}{image_name}.elf"), f"{crystal} MHz ({board})\n"), flash,
                     "stm32f405", "--crystal", crystal)
    bench.expect(1, ("error: --crystal 16: there is no image for it (MHz: 25 (Netduino Plus 2), 12 (Feather",), flash,
                 "stm32f405", "--crystal", "16")
    last = (bench.folder / "openocd.log").read_text().splitlines()[-1]
    if last != f"-f interface/stlink.cfg -f target/stm32f4x.cfg -c program {image}_8mhz.elf verify reset exit":
        raise SystemExit(f"FAIL: openocd was called with {last}")


def check_pico(bench):
    missing = ("no RPI-RP2 drive is mounted: hold BOOTSEL", "missing=drive")
    bench.expect(1, ("rp2040_gradstream_client.uf2 .../RPI-RP2/", "flashed=no", *missing), flash, "rp2040")
    bench.expect(1, ("error: rp2040 has one crystal: leave --crystal out",), flash, "rp2040", "--crystal", "12")
    bench.expect(1, ("kitchen.uf2 .../RPI-RP2/", "written=no", *missing), provision, "rp2040", "kitchen")
    bench.volume = bench.folder / "RPI-RP2"
    bench.volume.mkdir()
    bench.expect(0, ("flashed=yes",), flash, "rp2040")
    bench.expect(0, ("written=yes",), provision, "rp2040", "kitchen")
    if not IDENTITY.encode() in (bench.volume / "kitchen.uf2").read_bytes():
        raise SystemExit("FAIL: the identity did not get to the board")


def check_provision(bench):
    (bench.tools / "openocd").unlink()
    page = f"{bench.folder}/build/provision/kitchen.identity.page.bin"
    wanted = f"'program {page} 0x8020000 verify reset exit'"
    bench.expect(1, (wanted, "openocd is missing", "written=no missing=openocd"), provision, "stm32f405", "kitchen")
    bench.play_openocd(1)
    bench.expect(1, (wanted, "plug the ST-Link in", "written=no missing=board"), provision, "stm32f405", "kitchen")
    bench.play_openocd(0)
    bench.expect(0, ("the device keeps its key", "written=yes"), provision, "stm32f405", "kitchen")
    bench.expect(1, ("error: cannot read the shard none.gsd",), provision, "stm32f405", "kitchen", "--shard",
                 "none.gsd")
    (bench.folder / "pump.csv").write_text("a,b\n1,2\n")
    bench.expect(1, ("error: ", "pump.csv is no shard", "docs/data.md"), provision, "stm32f405", "kitchen", "--shard",
                 str(bench.folder / "pump.csv"))
    bench.expect(1, ("cellar.identity is missing: name the server's configuration with --config",), provision,
                 "stm32f405", "cellar")
    bench.expect(1, ("stm32f405 has a serial link",), provision, "stm32f405", "kitchen", "--server", "10.0.0.1:7433")
    if (bench.folder / "build" / "provision" / "kitchen.uf2").stat().st_mode & 0o077:
        raise SystemExit("FAIL: others may read the key")


def check_network(bench):
    """A network stands behind the samples, and has an image of its own."""
    network, shard = bench.folder / "head.gsn", bench.folder / "data.gsd"
    network.write_bytes(gsn.network((1, 1, 2), [gsn.dense(2, 2, trained=gsn.DENSE)]))
    shard.write_bytes(struct.pack("<4sIII3f", b"GSD2", 1, 3, 0, 0, 1, 1) + b"more")
    both = bench.folder / "build" / "provision" / "kitchen.gsd"
    words = ("stm32f405", "kitchen", "--shard", str(shard), "--network")
    bench.expect(0, (f"'program {both.resolve()} 0x8040000 verify reset exit'", "./run flash stm32f405 --network",
                     "written=yes"), provision, *words, str(network))
    if both.read_bytes() != shard.read_bytes()[:-4] + network.read_bytes():
        raise SystemExit("FAIL: the network does not stand behind the samples")
    bench.expect(0, ("stm32f405_gradstream_client_gsn.elf", "flashed=yes"), flash, "stm32f405", "--network",
                 str(network))
    bench.expect(1, ("--crystal 8: the image that trains networks is for the board's first crystal",), flash,
                 "stm32f405", "--network", str(network), "--crystal", "8")
    bench.expect(1, ("name them too, with --shard",), provision, "stm32f405", "kitchen", "--network", str(network))
    large = bench.folder / "large.gsn"
    large.write_bytes(gsn.network((1, 1, 300), [gsn.dense(300, 250, bytes(4 * 75000)), gsn.dense(250, 2, trained=1)]))
    bench.expect(1, ("and 262144 fit the flash region of the shard",), provision, *words, str(large))
    # A board that no tool writes: the command for QEMU has the network, and no image is named that cannot be flashed.
    bench.expect(1, (f"--shard {shard} --network {network}\n", "missing=loader"), provision, "mps2-an386-eth",
                 "kitchen", "--address", "10.0.0.2/24", "--server", "10.0.0.5:7433", "--shard", str(shard),
                 "--network", str(network), without=("./run flash",))
    for content, told in ((network.read_bytes()[:-4], "has 76 bytes and promises 80: copy it again"),
                          (network.read_bytes()[:-1] + b"x", "checksum does not hold"), (b"GIF", "is no network")):
        network.write_bytes(content)
        bench.expect(1, ("head.gsn: ", told), provision, *words, str(network))
        bench.expect(1, ("head.gsn: ", told), flash, "stm32f405", "--network", str(network))
    network.unlink()
    bench.expect(1, ("cannot read the network",), flash, "stm32f405", "--network", str(network))


def check_writer(_):
    """What the writer of networks is given, and does not write as it is given, it refuses by name."""
    layers = [gsn.conv2d((2, 2, 3), (2, 2), [0.5] * 12), gsn.relu(), gsn.dense(12, 4, [0.5] * 48),
              gsn.dense(4, 2, trained=gsn.DENSE)]
    gsn.network((3, 3, 1), layers)
    for at, inputs, comes in ((2, 13, "12 values come in (2x2x3)"), (3, 5, "4 values come in (1x1x4)")):
        wrong = [*layers]
        wrong[at] = wrong[at]._replace(inputs=inputs)
        try:
            gsn.network((3, 3, 1), wrong)
        except ValueError as error:
            if f"layer {at} (from 0) is given {inputs} inputs, and {comes}" not in str(error):
                raise SystemExit(f"FAIL: the refusal says {error}") from error
        else:
            raise SystemExit(f"FAIL: layer {at} took {inputs} inputs")


def check_monitor(bench):
    bench.expect(1, ("monitor: no serial port (looked for ", "plug the board's console in", "result: missing=port"),
                 monitor)
    (bench.folder / "ttyFile").write_text("")
    bench.expect(1, (f"monitor: error: {bench.folder}/ttyFile: ", "result: error=port"), monitor)


def main():
    with tempfile.TemporaryDirectory(prefix="gradstream-flash-") as folder:
        bench = Bench(folder)
        for check in (check_names, check_stm32, check_pico, check_provision, check_network, check_writer,
                      check_monitor):
            check(bench)


if __name__ == "__main__":
    main()
