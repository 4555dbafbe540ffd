// The model at which a run begins, from a file that people or their programs write: CSV, or .npy of NumPy.
#ifndef GRADSTREAM_SERVER_PROGRAM_MODEL_IMPORT_H_
#define GRADSTREAM_SERVER_PROGRAM_MODEL_IMPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/config.h"
#include "runtime/base/shape.h"
#include "server/base/objection.h"

namespace gradstream {

// Each gives *model in rows one after the other, all finite: an objection is a clause that follows the file's name with
// the place, what stands there, the limit and the remedy; *model is then untouched.

// Lines as LineReader reads them, one a row of the model; values as split_row() splits them. A number that is too small
// for a float becomes 0.
Objection parse_csv(std::string_view text, Shape shape, std::vector<Real>* model);
// Format 1.0, 2.0 or 3.0; dtype f4 or f8 of either byte order; C or Fortran order; shape (rows, cols), or (rows,) where
// cols is 1.
Objection parse_npy(std::string_view bytes, Shape shape, std::vector<Real>* model);
// Either, by what the file begins with. Of a file that is neither: what it is.
Objection read_model_file(const std::string& path, Shape shape, std::vector<Real>* model);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_MODEL_IMPORT_H_
