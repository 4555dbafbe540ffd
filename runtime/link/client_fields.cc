#include "runtime/base/no_contraction.h"

#include "runtime/link/client_fields.h"

#include <bit>
#include <cstring>

#include "runtime/wire/run_fields.h"

namespace gradstream {
namespace {

static_assert(std::endian::native == std::endian::little, "a field of fewer bytes than a word is its first bytes");

#define GS_RUN_WORD_FIELD(field, word) GS_WORD_FIELD(gs_Welcome, field, word),
constexpr WordField kRunFields[] = {GS_RUN_FIELDS(GS_RUN_WORD_FIELD) GS_WORD_FIELD(gs_Welcome, parameters_digest, 5)};

size_t size_of(const WordField& field) { return field.size == kFlagSize ? sizeof(bool) : field.size; }

}  // namespace

void store_fields(std::span<const WordField> fields, const void* from, uint32_t* words) {
  for (const WordField& field : fields) {
    words[field.word] = 0;
    std::memcpy(words + field.word, static_cast<const uint8_t*>(from) + field.offset, size_of(field));
  }
}

void load_fields(std::span<const WordField> fields, const uint32_t* words, void* to) {
  for (const WordField& field : fields) {
    uint8_t* const out = static_cast<uint8_t*>(to) + field.offset;
    const bool flag = words[field.word] != 0;
    const void* const value = field.size == kFlagSize ? static_cast<const void*>(&flag) : words + field.word;
    std::memcpy(out, value, size_of(field));
  }
}

bool are_fields_equal(std::span<const WordField> fields, const void* a, const void* b) {
  for (const WordField& field : fields) {
    const auto* const x = static_cast<const uint8_t*>(a) + field.offset;
    const auto* const y = static_cast<const uint8_t*>(b) + field.offset;
    if (std::memcmp(x, y, size_of(field)) != 0) {
      return false;
    }
  }
  return true;
}

void store_run(const gs_Welcome& welcome, uint32_t* words) { store_fields(kRunFields, &welcome, words); }

void load_run(const uint32_t* words, gs_Welcome* welcome) { load_fields(kRunFields, words, welcome); }

bool is_same_run(const gs_Welcome& a, const gs_Welcome& b) {
  bool holds = are_fields_equal(kRunFields, &a, &b) && a.manifold_parts_count == b.manifold_parts_count;
  for (uint32_t i = 0; holds && i < a.manifold_parts_count; ++i) {
    holds = are_fields_equal(kPartFields, &a.manifold_parts[i], &b.manifold_parts[i]);
  }
  return holds;
}

}  // namespace gradstream
