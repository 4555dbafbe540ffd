// Apart from linked_problem.cc: an image that names kpca alone does not pay for the scores of other problems.
#include "include/gradstream/problem.h"

const gs_linked_problem gs_kpca = {{&gradstream::kKpcaOps, nullptr}};
