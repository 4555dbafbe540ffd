#include "server/program/model_npz.h"

#include <array>
#include <bit>
#include <cstdio>
#include <string_view>

#include "runtime/base/status.h"
#include "server/program/model_export.h"
#include "server/rules/stage_record.h"

namespace gradstream {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50;
constexpr uint32_t kCentralMark = 0x02014b50;
constexpr uint32_t kEndMark = 0x06054b50;
constexpr uint16_t kVersion = 20;  // of the format that a reader must know
constexpr uint16_t kStored = 0;
constexpr uint16_t kFirstDate = 0x0021;  // 1980-01-01, the first that the format has

template <typename Value>
void put(Value value, std::vector<uint8_t>* out) {
  for (size_t i = 0; i < sizeof(Value); ++i) {
    out->push_back(static_cast<uint8_t>(value >> 8 * i));
  }
}

void put_text(std::string_view text, std::vector<uint8_t>* out) { out->insert(out->end(), text.begin(), text.end()); }

// What both records of a member have in common.
void put_member(const ZipMember& member, uint32_t crc, std::vector<uint8_t>* out) {
  put(kVersion, out);
  put(uint16_t{0}, out);  // flags
  put(kStored, out);
  put(uint16_t{0}, out);  // time
  put(kFirstDate, out);
  put(crc, out);
  put(static_cast<uint32_t>(member.bytes.size()), out);
  put(static_cast<uint32_t>(member.bytes.size()), out);
  put(static_cast<uint16_t>(member.name.size()), out);
  put(uint16_t{0}, out);  // extra fields
}

// A scalar of NumPy's type <Un: n code points of 4 bytes.
std::vector<uint8_t> text_array(const std::string& text) {
  std::vector<uint8_t> bytes = npy_head("<U" + std::to_string(text.empty() ? 1 : text.size()), "()");
  for (const char c : text) {
    put(uint32_t{static_cast<uint8_t>(c)}, &bytes);
  }
  if (text.empty()) {
    put(uint32_t{0}, &bytes);
  }
  return bytes;
}

std::vector<uint8_t> number_array(uint32_t value) {
  std::vector<uint8_t> bytes = npy_head("<u4", "()");
  put(value, &bytes);
  return bytes;
}

std::vector<uint8_t> real_array(std::span<const Real> values) {
  std::vector<uint8_t> bytes = npy_head("<f4", "(" + std::to_string(values.size()) + ",)");
  for (const Real value : values) {
    put(std::bit_cast<uint32_t>(value), &bytes);
  }
  return bytes;
}

}  // namespace

uint32_t zip_crc32(std::span<const uint8_t> bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> out = {};
    for (uint32_t i = 0; i < out.size(); ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) {
        crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
      }
      out[i] = crc;
    }
    return out;
  }();
  uint32_t crc = ~0U;
  for (const uint8_t byte : bytes) {
    crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF];
  }
  return ~crc;
}

std::vector<uint8_t> zip_bytes(std::span<const ZipMember> members) {
  std::vector<uint8_t> out;
  std::vector<uint8_t> directory;
  for (const ZipMember& member : members) {
    const auto offset = static_cast<uint32_t>(out.size());
    const uint32_t crc = zip_crc32(member.bytes);
    put(kLocalMark, &out);
    put_member(member, crc, &out);
    put_text(member.name, &out);
    out.insert(out.end(), member.bytes.begin(), member.bytes.end());
    put(kCentralMark, &directory);
    put(kVersion, &directory);  // of its writer
    put_member(member, crc, &directory);
    put(uint16_t{0}, &directory);  // comment
    put(uint16_t{0}, &directory);  // disk
    put(uint16_t{0}, &directory);  // attributes, inner
    put(uint32_t{0}, &directory);  // attributes, outer
    put(offset, &directory);
    put_text(member.name, &directory);
  }
  const auto directory_at = static_cast<uint32_t>(out.size());
  const auto count = static_cast<uint16_t>(members.size());
  out.insert(out.end(), directory.begin(), directory.end());
  GS_ASSERT(out.size() < kZipSizeMax);
  put(kEndMark, &out);
  put(uint16_t{0}, &out);  // this disk
  put(uint16_t{0}, &out);  // that of the directory
  put(count, &out);
  put(count, &out);
  put(static_cast<uint32_t>(directory.size()), &out);
  put(directory_at, &out);
  put(uint16_t{0}, &out);  // comment
  return out;
}

std::vector<uint8_t> npz_bytes(const NpzModel& model) {
  char digest[20];
  std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(model.digest));
  std::vector<ZipMember> members = {{"model.npy", npy_bytes(model.shape, model.model)},
                                    {"problem.npy", text_array(model.problem)},
                                    {"digest.npy", text_array(digest)},
                                    {"run.npy", number_array(model.run)},
                                    {"version.npy", number_array(model.version)}};
  if (!model.mean.empty()) {
    members.push_back({"mean.npy", real_array(model.mean)});
    members.push_back({"scale.npy", real_array(model.scale)});
  }
  return zip_bytes(members);
}

Objection read_units(std::span<const uint8_t> table, NpzModel* out) {
  std::vector<UnitsColumn> columns;
  if (!table.empty() && decode_units(table, &columns) != Status::kOk) {
    return "the units of version " + std::to_string(out->version) + " of run " + std::to_string(out->run) +
           " are damaged; restore the database from a copy";
  }
  for (const UnitsColumn& column : columns) {
    if (column.factor == 0) {  // devices take the samples as they are
      out->mean.clear();
      out->scale.clear();
      return {};
    }
    out->mean.push_back(column.mean);
    out->scale.push_back(column.factor);
  }
  return {};
}

std::string model_form(const std::string& option, const std::string& path) {
  if (!option.empty()) {
    return option;
  }
  return path.ends_with(".csv") ? "csv" : path.ends_with(".npz") ? "npz" : "npy";
}

Objection encode_model(const std::string& form, const NpzModel& model, std::vector<uint8_t>* out) {
  if (form == "csv") {
    const std::string text = csv_text(model.shape, model.model);
    out->assign(text.begin(), text.end());
    return {};
  }
  if (form == "npz" && model.model.size_bytes() > kNpzModelSizeMax) {
    return "the model has " + std::to_string(model.model.size_bytes()) + " bytes, and the limit of npz is " +
           std::to_string(kNpzModelSizeMax) + "; give --format npy";
  }
  *out = form == "npz" ? npz_bytes(model) : npy_bytes(model.shape, model.model);
  return {};
}

}  // namespace gradstream
