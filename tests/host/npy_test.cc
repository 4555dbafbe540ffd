#include "host/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/npy_bytes.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

TEST(Npy, ReadsHeadersOfAllFormats) {
  NpyHeader header;
  std::string file = npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", "abc");
  EXPECT_EQ(read_npy_header(file, "", &header), "");
  EXPECT_EQ(header.descr, "<f4");
  EXPECT_TRUE(header.is_fortran);
  EXPECT_EQ(header.shape, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(file.substr(header.values_at), "abc");
  const std::string text = file.substr(10, header.values_at - 10);
  for (const char major : {'\2', '\3'}) {
    const std::string longer = std::string("\x93NUMPY") + major + std::string("\0", 1) +
                               static_cast<char>(text.size()) + std::string("\0\0\0", 3) + text + "abc";
    EXPECT_EQ(read_npy_header(longer, "", &header), "");
    EXPECT_EQ(longer.substr(header.values_at), "abc");
  }
  EXPECT_EQ(
      read_npy_header(npy_file("{'shape': (5L,), 'fortran_order': False, 'descr': [('a', '<f4')]}", ""), "", &header),
      "");
  EXPECT_EQ(header.descr, "a record");
  EXPECT_EQ(npy_shape_text(header.shape), "(5,)");
}

TEST(Npy, NamesWhatIsWrong) {
  NpyHeader header;
  const std::string file = npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", "");
  for (size_t size = kNpyMagic.size(); size < file.size(); ++size) {
    EXPECT_THAT(read_npy_header(file.substr(0, size), "", &header), HasSubstr("truncated")) << size;
  }
  std::string future = file;
  future[6] = 4;
  EXPECT_THAT(read_npy_header(future, "; save it again", &header), HasSubstr("format 4.0, and 1.0, 2.0 and 3.0"));
  for (const char* text : {"{}", "{'descr': '<f4'}", "x", "{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -1)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': 3}"}) {
    EXPECT_THAT(read_npy_header(npy_file(text, ""), "; save it again", &header), HasSubstr("parse; save it again"))
        << text;
  }
}

TEST(Npy, LoadsLittleEndianNumbers) {
  EXPECT_EQ(load_little("\x01\x02\x03", 1, 2), 0x0302U);
  EXPECT_EQ(load_little("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 0, 8), 0x7FFFFFFFFFFFFFFFU);
}

}  // namespace
}  // namespace gradstream
