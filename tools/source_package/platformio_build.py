"""PlatformIO runs this before it compiles the library: its files are C++20, whatever the project's standard is."""
Import("env")  # noqa: F821  PlatformIO brings both names

for flags in ("CCFLAGS", "CXXFLAGS"):
    env[flags] = [flag for flag in env[flags] if not str(flag).startswith("-std=")]  # noqa: F821
# A program in C is linked without a library of C++.
own = ["-std=gnu++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
env.Append(CXXFLAGS=own, LIBS=["m"])  # noqa: F821
