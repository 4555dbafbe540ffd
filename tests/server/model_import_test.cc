#include "server/program/model_import.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/program/model_export.h"

namespace gradstream {
namespace {

using testing::HasSubstr;

const std::vector<Real> kModel = {1.0F, -0.5F, 0.1F, 1e-20F, 3.0F, 7.25F};
constexpr Shape kShape = {3, 2};

std::string of_bytes(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(ModelImport, CsvReadsBackToTheSameFloats) {
  std::vector<Real> model;
  EXPECT_EQ(parse_csv(csv_text(kShape, kModel), kShape, &model).sentence, "");
  EXPECT_EQ(model, kModel);
}

TEST(ModelImport, ReadsWhatEditorsAndSpreadsheetsWrite) {
  for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
    for (const std::string end : {"\n", "\r\n", "\r"}) {
      for (const std::string blank : {"", " ", "\t"}) {
        for (const std::string quote : {"", "\""}) {
          const auto value = [&](const char* text) { return blank + quote + text + quote + blank; };
          const std::string text = mark + "# of a run" + end + value("1") + "," + value("-0.5") + end + blank + end +
                                   value("+0.1") + "," + value("1e-20") + end + value("3.") + "," + value("7.25");
          for (const std::string& last : {std::string(), end, end + end, end + blank}) {
            std::vector<Real> model;
            ASSERT_EQ(parse_csv(text + last, kShape, &model).sentence, "") << text;
            EXPECT_EQ(model, kModel) << text;
          }
        }
      }
    }
  }
}

TEST(ModelImport, RoundsWhatIsTooSmallAndKeepsSubnormals) {
  std::vector<Real> model;
  EXPECT_EQ(parse_csv("1e-400,-1e-60\n1e-40,2.5e-320\n1e0,1E+2\n", kShape, &model).sentence, "");
  EXPECT_EQ(model, (std::vector<Real>{0, 0, 1e-40F, 0, 1, 100}));
}

TEST(ModelImport, CsvSaysPlaceValueAndRemedy) {
  const struct {
    std::string text;
    std::vector<const char*> words;
  } cases[] = {
      {"", {"after 0 rows", "3 rows of 2 values"}},
      {"# a\n\n", {"ends in line 2 after 0 rows"}},
      {"1,2\n3,4\n", {"ends in line 2 after 2 rows", "3 rows of 2 values"}},
      {"1,2\n3,4\n5,6\n\n7,8", {"line 5", "`7,8`", "one row too many"}},
      {"1,2,3\n4,5,6\n", {"line 1, column 3", "3 values", "3 rows of 2", "transposed"}},
      {"1,2\n3\n5,6\n", {"line 2, column 1", "1 values", "3 rows of 2"}},
      {"1,2,\n3,4,\n5,6,\n", {"line 1, column 3", "3 values"}},
      {"a,b\n1,2\n3,4\n5,6\n", {"line 1, column 1", "`a`", "head line"}},
      {"x\n", {"line 1, column 1", "`x`", "head line"}},
      {"1;2\n3;4\n5;6\n", {"line 1, column 1", "`1;2`", "semicolons", "commas"}},
      {"1,5;2,5\n", {"line 1, column 2", "semicolons", "point"}},
      {"1\t2\n", {"line 1, column 1", "`1\\x092`", "tabs"}},
      {"1 2\n3 4\n5 6\n", {"line 1, column 1", "`1 2`", "commas"}},
      {"1,2\n3,\"4,5\"\n", {"line 2, column 2", "`4,5`", "point"}},
      {"1,2\n3,x\n5,6\n", {"line 2, column 2", "`x`", "no number"}},
      {"1,2\n3,\"4,000.5\"\n", {"line 2, column 2", "`4,000.5`", "thousands"}},
      {"1,2\n,4\n", {"line 2, column 1", "empty"}},
      {"1,2\n3,0x10\n", {"line 2, column 2", "`0x10`"}},
      {"1,2\n3,--1\n", {"`--1`", "no number"}},
      {"1,2\n3,+-1\n", {"`+-1`", "no number"}},
      {"1,2\n3,nan\n", {"line 2, column 2", "`nan`", "finite"}},
      {"1,2\n-inf,4\n", {"line 2, column 1", "`-inf`", "finite"}},
      {"1,2\n3,1e39\n", {"line 2, column 2", "`1e39`", "3.4e38"}},
      {"1,2\n3,4\xC2\xA0\n", {"line 2, column 2", "\\xC2\\xA0"}},
      {"1,\"2\n", {"line 1, column 2", "not closed"}},
      {"\xFF\xFE"
       "1",
       {"UTF-16", "UTF-8"}},
      {std::string("1,2\r\n3,\0", 8), {"line 2: holds a byte 0"}},
  };
  std::vector<Real> model = kModel;
  for (const auto& [text, words] : cases) {
    const std::string problem = parse_csv(text, kShape, &model).sentence;
    for (const char* word : words) {
      EXPECT_THAT(problem, HasSubstr(word)) << text;
    }
  }
  EXPECT_EQ(model, kModel) << "untouched";
}

// ---- NumPy ----

template <typename T>
std::string bytes_of(T value, bool is_big = false) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  return is_big ? std::string(std::rbegin(raw), std::rend(raw)) : std::string(raw, sizeof(T));
}

std::string npy(const std::string& header, const std::string& values, char major = 1) {
  std::string text = std::string("\x93NUMPY") + major + '\0';
  text += major == 1 ? bytes_of(static_cast<uint16_t>(header.size())) : bytes_of(static_cast<uint32_t>(header.size()));
  return text + header + values;
}

std::string head(const std::string& descr, const std::string& order = "False", const std::string& shape = "(3, 2)") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }   \n";
}

template <typename T>
std::string values_of(bool is_big, bool is_fortran) {
  std::string text;
  for (size_t i = 0; i < kModel.size(); ++i) {
    text += bytes_of(static_cast<T>(kModel[is_fortran ? i % 3 * 2 + i / 3 : i]), is_big);
  }
  return text;
}

TEST(ModelImport, NpyReadsBackToTheSameFloats) {
  std::vector<Real> model;
  EXPECT_EQ(parse_npy(of_bytes(npy_bytes(kShape, kModel)), kShape, &model).sentence, "");
  EXPECT_EQ(model, kModel);
}

TEST(ModelImport, NpyOfEveryFormatTypeAndOrder) {
  for (const char major : {'\1', '\2', '\3'}) {
    for (const bool is_fortran : {false, true}) {
      const std::string order = is_fortran ? "True" : "False";
      for (const bool is_big : {false, true}) {
        const std::string sign = is_big ? ">" : "<";
        std::vector<Real> model;
        EXPECT_EQ(parse_npy(npy(head(sign + "f4", order), values_of<float>(is_big, is_fortran), major), kShape, &model)
                      .sentence,
                  "");
        EXPECT_EQ(model, kModel);
        model.clear();
        EXPECT_EQ(parse_npy(npy(head(sign + "f8", order), values_of<double>(is_big, is_fortran), major), kShape, &model)
                      .sentence,
                  "");
        EXPECT_EQ(model, kModel);
      }
    }
  }
  std::vector<Real> model;
  const std::string other = "{\"shape\": (3L, 2L), \"fortran_order\": False, \"descr\": \"<f4\"}\n";
  EXPECT_EQ(parse_npy(npy(other, values_of<float>(false, false)), kShape, &model).sentence, "")
      << "another order of entries";
  EXPECT_EQ(parse_npy(npy(head("<f4", "False", "(6,)"), values_of<float>(false, false)), {6, 1}, &model).sentence, "");
}

TEST(ModelImport, NpySaysWhatItHoldsAndTheRemedy) {
  const std::string values = values_of<float>(false, false);
  std::string with_nan = values, beyond = values_of<double>(false, false);
  with_nan.replace(12, 4, bytes_of(std::nanf("")));
  beyond.replace(32, 8, bytes_of(-1e300));
  const struct {
    std::string bytes;
    std::vector<const char*> words;
  } cases[] = {
      {npy(head("<i8"), values), {"dtype `<i8`", "float32"}},
      {npy(head("<f2"), values), {"dtype `<f2`"}},
      {npy(head("<c8"), values), {"dtype `<c8`"}},
      {npy(head("|O"), values), {"dtype `|O`"}},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }\n", values), {"a record", "float32"}},
      {npy(head("<f4", "False", "(2, 3)"), values), {"(2, 3)", "(3, 2)", "model.T"}},
      {npy(head("<f4", "False", "(6,)"), values), {"(6,)", "(3, 2)"}},
      {npy(head("<f4", "False", "(1, 3, 2)"), values), {"(1, 3, 2)", "(3, 2)"}},
      {npy(head("<f4", "False", "()"), values), {"()", "(3, 2)"}},
      {npy(head("<f4"), values.substr(1)), {"truncated", "bytes"}},
      {npy(head("<f4"), values + "x"), {"more than one array"}},
      {npy(head("<f4"), with_nan), {"row 2, column 2", "nan", "finite"}},
      {npy(head("<f8"), beyond), {"row 3, column 1", "finite float"}},
      {npy(head("<f4"), values, '\4'), {"format 4.0", "3.0"}},
      {npy("{'descr': '<f4'}", values), {"does not parse"}},
      {npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3, 2)}", values), {"does not parse"}},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, x)}", values), {"does not parse"}},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)", values), {"does not parse"}},
      {npy("", values), {"does not parse"}},
  };
  std::vector<Real> model = kModel;
  for (const auto& [bytes, words] : cases) {
    const std::string problem = parse_npy(bytes, kShape, &model).sentence;
    for (const char* word : words) {
      EXPECT_THAT(problem, HasSubstr(word));
    }
  }
  EXPECT_EQ(model, kModel) << "untouched";
}

TEST(ModelImport, NpyIsRefusedAtEveryLengthAndEveryByteIsSafe) {
  const std::string good = npy(head("<f4"), values_of<float>(false, false));
  std::vector<Real> model;
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(parse_npy(good.substr(0, size), kShape, &model).sentence, "") << size;
  }
  for (size_t at = 6; at < good.size(); ++at) {
    for (int value = 0; value < 256; value += 3) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      if (parse_npy(bad, kShape, &model).sentence.empty()) {
        EXPECT_EQ(model.size(), kModel.size());
      }
    }
  }
}

TEST(ModelImport, AFileIsReadByWhatItIs) {
  std::string folder = testing::TempDir() + "import_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/m";
  const auto read = [&path](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    std::vector<Real> model;
    const std::string problem = read_model_file(path, kShape, &model).sentence;
    return problem.empty() ? std::to_string(model.size()) : problem;
  };
  EXPECT_EQ(read(csv_text(kShape, kModel)), "6");
  EXPECT_EQ(read(of_bytes(npy_bytes(kShape, kModel))), "6");
  EXPECT_THAT(read(""), HasSubstr("is empty"));
  EXPECT_THAT(read("PK\x03\x04...."), HasSubstr("zip archive"));
  EXPECT_THAT(read("GSD2...."), HasSubstr("is a shard"));
  EXPECT_THAT(read(std::string(2U << 20, ' ')), HasSubstr("at most 1048960 are read"));
  std::filesystem::remove_all(folder);
  std::vector<Real> model;
  EXPECT_THAT(read_model_file(path, kShape, &model).sentence,
              HasSubstr("No such file or directory; name a CSV or .npy file"));
}

}  // namespace
}  // namespace gradstream
