#include "server/program/model_npz.h"

#include <cstdio>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/program/model_export.h"
#include "server/rules/stage_record.h"

namespace gradstream {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

TEST(ModelNpz, TheCheckIsThatOfZip) {
  EXPECT_EQ(zip_crc32({}), 0U);
  EXPECT_EQ(zip_crc32(bytes_of("123456789")), 0xCBF43926U);  // the check value of the standard
}

TEST(ModelNpz, AnArchiveHasEachMemberTwice) {
  const std::vector<ZipMember> members = {{"a.npy", bytes_of("one")}, {"b.npy", {}}};
  const std::vector<uint8_t> zip = zip_bytes(members);
  EXPECT_EQ(zip.size(), 2 * (30 + 46 + 2 * 5) + 3 + 22U);
  EXPECT_EQ(zip, zip_bytes(members));
  const std::string text(zip.begin(), zip.end());
  EXPECT_EQ(text.substr(0, 4), "PK\x03\x04");
  EXPECT_EQ(text.substr(30, 8), "a.npyone");
  EXPECT_EQ(text.substr(zip.size() - 22, 4), "PK\x05\x06");
}

TEST(ModelNpz, UnitsAreTakenOnceTheyAreDecided) {
  NpzModel model;
  EXPECT_EQ(read_units({}, &model).sentence, "");
  EXPECT_TRUE(model.mean.empty());
  const std::vector<UnitsColumn> decided = {{3, 1.5F, 2}, {-126, 0, 1}};
  EXPECT_EQ(read_units(encode_units(decided), &model).sentence, "");
  EXPECT_EQ(model.mean, (std::vector<Real>{1.5F, 0}));
  EXPECT_EQ(model.scale, (std::vector<Real>{2, 1}));
  NpzModel open;
  const std::vector<UnitsColumn> undecided = {{3, 0, 0}, {2, 0, 0}};
  EXPECT_EQ(read_units(encode_units(undecided), &open).sentence, "");
  EXPECT_TRUE(open.scale.empty());
  const std::vector<uint8_t> cut(kUnitsColumnSize - 1);
  EXPECT_THAT(read_units(cut, &open).sentence, testing::HasSubstr("are damaged"));
}

TEST(ModelNpz, TheFormIsThatOfTheOptionOrOfTheEnding) {
  EXPECT_EQ(model_form("", "a.csv"), "csv");
  EXPECT_EQ(model_form("", "a.npz"), "npz");
  EXPECT_EQ(model_form("", "a"), "npy");
  EXPECT_EQ(model_form("npy", "a.npz"), "npy");
}

TEST(ModelNpz, AModelTooLargeForAnArchiveIsRefusedAndNoOther) {
  const std::vector<Real> values = {1, 2};
  NpzModel model;
  model.shape = {2, 1};
  model.model = values;
  std::vector<uint8_t> bytes;
  for (const char* form : {"csv", "npy", "npz"}) {
    EXPECT_EQ(encode_model(form, model, &bytes).sentence, "") << form;
    EXPECT_FALSE(bytes.empty());
  }
  // Only its size is looked at.
  model.model = std::span<const Real>(values.data(), kNpzModelSizeMax / sizeof(Real) + 1);
  EXPECT_THAT(encode_model("npz", model, &bytes).sentence, testing::HasSubstr("give --format npy"));
}

// NumPy's own reader, where it is installed.
TEST(ModelNpz, NumpyReadsEachMember) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "NumPy is not installed for /usr/bin/python3";
  }
  const std::vector<Real> model = {1.0F, -0.5F, 0.25F, 1e-20F, 3.0F, 7.25F};
  const std::vector<Real> mean = {10.0F, 0.0F, -1.0F};
  const std::vector<Real> scale = {2.0F, 1.0F, 0.5F};
  const std::string path = testing::TempDir() + "model_npz_test.npz";
  const auto read = [&](const NpzModel& what, const std::string& check) {
    const std::vector<uint8_t> bytes = npz_bytes(what);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    const std::string program =
        "import numpy, sys, zipfile; m = numpy.load(sys.argv[1]); "
        "assert zipfile.ZipFile(sys.argv[1]).testzip() is None; assert " +
        check;
    return std::system(("/usr/bin/python3 -c '" + program + "' " + path).c_str());
  };
  NpzModel what = {{3, 2}, model, {}, {}, "kpca", 0x12abU, 3, 7};
  EXPECT_EQ(read(what, "sorted(m) == [\"digest\", \"model\", \"problem\", \"run\", \"version\"]"), 0);
  EXPECT_EQ(read(what, "str(m[\"problem\"]) == \"kpca\" and str(m[\"digest\"]) == \"00000000000012ab\""), 0);
  EXPECT_EQ(read(what, "int(m[\"run\"]) == 3 and int(m[\"version\"]) == 7 and m[\"model\"].dtype == \"float32\""), 0);
  EXPECT_EQ(read(what, "m[\"model\"].tolist() == [[1, -0.5], [0.25, float(numpy.float32(1e-20))], [3, 7.25]]"), 0);
  what.mean = mean;
  what.scale = scale;
  EXPECT_EQ(read(what, "m[\"mean\"].tolist() == [10, 0, -1] and m[\"scale\"].tolist() == [2, 1, 0.5]"), 0);
  what.problem = "";
  EXPECT_EQ(read(what, "str(m[\"problem\"]) == \"\""), 0);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace gradstream
