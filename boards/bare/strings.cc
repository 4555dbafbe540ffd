// What an image calls of <string.h> beside copies, in the place of newlib's. Its functions go by words, as short texts
// and keys do not need, and take 700 bytes of flash more. Compiled by itself, and without the compiler's knowledge of
// these names (bare.cmake): it would make a call of strlen() from the loop of strlen().
#include <cstddef>
#include <cstdint>

extern "C" size_t strlen(const char* text) {
  const char* end = text;
  while (*end != '\0') {
    ++end;
  }
  return static_cast<size_t>(end - text);
}

extern "C" int strncmp(const char* a, const char* b, size_t size) {
  for (; size > 0; --size, ++a, ++b) {
    const int difference = static_cast<uint8_t>(*a) - static_cast<uint8_t>(*b);
    if (difference != 0 || *a == '\0') {
      return difference;
    }
  }
  return 0;
}

extern "C" int memcmp(const void* a, const void* b, size_t size) {
  const auto* left = static_cast<const uint8_t*>(a);
  const auto* right = static_cast<const uint8_t*>(b);
  for (; size > 0; --size, ++left, ++right) {
    if (*left != *right) {
      return *left - *right;
    }
  }
  return 0;
}

extern "C" void* memchr(const void* memory, int value, size_t size) {
  for (auto* at = static_cast<const uint8_t*>(memory); size > 0; --size, ++at) {
    if (*at == static_cast<uint8_t>(value)) {
      return const_cast<uint8_t*>(at);
    }
  }
  return nullptr;
}
