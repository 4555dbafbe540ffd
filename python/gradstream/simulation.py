"""A fleet in virtual time: the simulator of `./run simulate`, with its options as arguments."""

from gradstream.programs import ask


def simulate(**options):
    """The fields of the simulator's last line, such as digest, updates or bytes; numbers are numbers.

    simulate(devices=5, rounds=10, seed=3) is `./run simulate --devices 5 --rounds 10 --seed 3`: an option's dashes
    are underscores here, and True stands for an option without a value. gradstream-sim --help names the options.
    Raises ProgramFailed where an invariant is broken or an option is none.
    """
    words = []
    for name, value in options.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    line = ask("gradstream-sim", *words).rstrip().splitlines()[-1]
    pairs = (word.split("=", 1) for word in line.removeprefix("result: ").split())
    return {key: _number(value) for key, value in pairs}


def _number(text):
    """A digest has 16 digits, which may all be decimal: it stays a text."""
    if len(text) == 16 and "." not in text:
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
