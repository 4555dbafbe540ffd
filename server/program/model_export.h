// The model of a version as a file that other programs read: .npy (NumPy format 1.0) or CSV, row by row.
//
// A file appears under its name only when it is complete (written beside it, then renamed), so that a watcher of the
// folder never reads half a model. Exports are copies: they are not synchronised to the disk.
#ifndef GRADSTREAM_SERVER_PROGRAM_MODEL_EXPORT_H_
#define GRADSTREAM_SERVER_PROGRAM_MODEL_EXPORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "server/base/objection.h"

namespace gradstream {

// The head of a file of format 1.0 in C order. descr: its type, such as "<f4"; shape: as Python writes it, such as
// "(3,)".
std::vector<uint8_t> npy_head(const std::string& descr, const std::string& shape);
// dtype '<f4', C order, shape (rows, cols).
std::vector<uint8_t> npy_bytes(Shape shape, std::span<const Real> model);
// One line a row; each value in the fewest digits that read back as the same float.
std::string csv_text(Shape shape, std::span<const Real> model);

// "run3_v000012.npy": runs that share a folder never mix.
std::string version_file_name(uint32_t run, uint32_t version);
// "run3_v000012_average.npy", beside "run3_v000012.npy": the average of the versions up to it.
std::string average_file_name(const std::string& version_path);

// An objection: what is there under this name must not be replaced by a file of ours, as it is a database, or
// no ordinary file.
Objection check_target(const std::string& path);
// Under its name the file is whole and durable. An objection names the file, the cause and the remedy.
// *is_temporary: the cause may go away by itself (host/file_cause.h); may be null.
Objection write_file_atomically(const std::string& path, std::span<const uint8_t> bytes, bool* is_temporary = nullptr);
// Whether files can be made in the folder: objections as above. may_write: one is made and removed.
Objection check_export_folder(const std::string& folder, bool may_write);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_MODEL_EXPORT_H_
