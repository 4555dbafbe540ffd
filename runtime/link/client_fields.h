// Lists of fields, each named once: what is saved of them, read back or compared goes through the same list, so that no
// place can forget one.
//
// A list stands for a type without pointers. A saved field takes whole words of 32 bits, as the processor keeps them.
#ifndef GRADSTREAM_RUNTIME_LINK_CLIENT_FIELDS_H_
#define GRADSTREAM_RUNTIME_LINK_CLIENT_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "runtime/wire/codec.h"

namespace gradstream {

// One field of a type, and where its value stands among saved words.
struct WordField {
  uint16_t offset;  // in the type, bytes
  uint8_t size;     // bytes, at most 8; kFlagSize: a bool, which is one byte
  uint8_t word;     // the first of its words; a field of 8 bytes takes two, the low one first
};
inline constexpr uint8_t kFlagSize = 0;

#define GS_WORD_FIELD(type, field, word)                                                                             \
  ::gradstream::WordField {                                                                                          \
    offsetof(type, field),                                                                                           \
        (std::is_same_v<decltype(type::field), bool> ? ::gradstream::kFlagSize : uint8_t{sizeof(type::field)}), word \
  }

// All fields of a part of a product. They are compared, and saved as bytes.
inline constexpr WordField kPartFields[] = {
    GS_WORD_FIELD(gs_ManifoldPart, manifold, 0),  GS_WORD_FIELD(gs_ManifoldPart, rows, 1),
    GS_WORD_FIELD(gs_ManifoldPart, cols, 2),      GS_WORD_FIELD(gs_ManifoldPart, retraction, 3),
    GS_WORD_FIELD(gs_ManifoldPart, transport, 4), GS_WORD_FIELD(gs_ManifoldPart, rank, 5),
};

// words <- the fields of the object `from`; other words stay.
void store_fields(std::span<const WordField> fields, const void* from, uint32_t* words);
// The fields of the object `to` <- words; its other fields stay. A word whose number is larger than its field is cut; a
// flag is true for any word but 0.
void load_fields(std::span<const WordField> fields, const uint32_t* words, void* to);
// Whether two objects of the list's type agree in every field of the list.
bool are_fields_equal(std::span<const WordField> fields, const void* a, const void* b);

// What makes a run what it is for a device: the numbers of runtime/wire/run_fields.h, the digest of the run's keys, and
// the parts of a product. A device goes on with a run, and with what it saved of it, only where all of them are equal.
// A Welcome's other fields may change within a run.
//
// words <- numbers and digest, each at its place in the saved state's header (client_save.cc); other words stay.
void store_run(const gs_Welcome& welcome, uint32_t* words);
// The numbers and the digest of the Welcome <- words; its other fields stay.
void load_run(const uint32_t* words, gs_Welcome* welcome);
// Whether both Welcomes name the same run, parts and all.
bool is_same_run(const gs_Welcome& a, const gs_Welcome& b);

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_LINK_CLIENT_FIELDS_H_
