#include <cstdio>

#include "tests/digest/digest_console.h"

void gradstream::console_write(const char* text) { std::fputs(text, stdout); }
