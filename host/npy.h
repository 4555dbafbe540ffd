// The header of NumPy's .npy files, formats 1.0, 2.0 and 3.0.
#ifndef GRADSTREAM_HOST_NPY_H_
#define GRADSTREAM_HOST_NPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradstream {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  std::string descr;  // the type of a value, such as "<f4"; "a record" of several
  bool is_fortran = false;
  std::vector<uint64_t> shape;
  size_t values_at = 0;  // their offset in the file
};

// Of bytes that begin with kNpyMagic. Empty, or a clause that follows the file's name; save_again: its end where the
// file must be written anew, such as "; write it with numpy.save(file, a)".
std::string read_npy_header(std::string_view bytes, const char* save_again, NpyHeader* out);

// As Python writes it: "(3, 4)", "(3,)".
std::string npy_shape_text(const std::vector<uint64_t>& shape);

// `size` bytes at `at`, the least significant first. Requires that they are there, and size <= 8.
uint64_t load_little(std::string_view bytes, size_t at, size_t size);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_NPY_H_
