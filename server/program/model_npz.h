// A model with what its samples need, as one file: NumPy's .npz, a zip archive of arrays that are not compressed.
// docs/own_data.md shows how it is used.
#ifndef GRADSTREAM_SERVER_PROGRAM_MODEL_NPZ_H_
#define GRADSTREAM_SERVER_PROGRAM_MODEL_NPZ_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "server/base/objection.h"

namespace gradstream {

// CRC-32 of zip archives (ISO 3309, polynomial 0xEDB88320). It is another one than that of uploads.
uint32_t zip_crc32(std::span<const uint8_t> bytes);

struct ZipMember {
  std::string name;
  std::vector<uint8_t> bytes;
};
// An archive without compression. The same members make the same bytes: the date of each is 1980-01-01. Requires that
// the archive is shorter than kZipSizeMax.
inline constexpr uint64_t kZipSizeMax = 1ULL << 32;  // bytes. Reason: the format's fields of 32 bits
std::vector<uint8_t> zip_bytes(std::span<const ZipMember> members);

// Of the model in a .npz. Reason: with the other members it stays below kZipSizeMax.
inline constexpr uint64_t kNpzModelSizeMax = kZipSizeMax / 2;  // bytes
struct NpzModel {
  Shape shape;
  std::span<const Real> model;  // rows x cols, row by row
  // For each column of a sample: z = (sample - mean) * scale is what the model is for. Empty: the run takes no units
  // out.
  std::vector<Real> mean = {};
  std::vector<Real> scale = {};
  std::string problem;  // ASCII
  uint64_t digest = 0;  // of the version, as `gradstream status` shows it
  uint32_t run = 0;
  uint32_t version = 0;
};
// Puts what a device does to its samples into mean and scale. table: the units of the version
// (server/rules/stage_record.h); where it is empty or not decided yet, both are empty. An objection: it is damaged.
Objection read_units(std::span<const uint8_t> table, NpzModel* out);

// "npy", "csv" or "npz": the option, or else by the ending of the path, else npy.
std::string model_form(const std::string& option, const std::string& path);
// The file of that form. An objection: the model is too large for it.
Objection encode_model(const std::string& form, const NpzModel& model, std::vector<uint8_t>* out);

// Members: model (float32, rows x cols), problem and digest (text), run and version (whole numbers of 32 bits), and
// where units are taken out mean and scale (float32, a value a column).
std::vector<uint8_t> npz_bytes(const NpzModel& model);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_MODEL_NPZ_H_
