// Files of NumPy's format 1.0 for tests.
#ifndef GRADSTREAM_TESTS_SUPPORT_NPY_BYTES_H_
#define GRADSTREAM_TESTS_SUPPORT_NPY_BYTES_H_

#include <string>

namespace gradstream {

// A file with this header, the dictionary as Python writes it, and these bytes of values.
inline std::string npy_file(const std::string& header, const std::string& values) {
  std::string text = header + "\n";
  const auto size = static_cast<unsigned>(text.size());
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(size & 255) + static_cast<char>(size >> 8) + text +
         values;
}

inline std::string npy_table_file(const std::string& descr, const std::string& shape, const std::string& values,
                                  bool is_fortran = false) {
  return npy_file(
      "{'descr': '" + descr + "', 'fortran_order': " + (is_fortran ? "True" : "False") + ", 'shape': " + shape + ", }",
      values);
}

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_NPY_BYTES_H_
