// Apart from linked_problem.cc: an image that names kpca alone does not pay for the scores of other problems.
#include "firmware/linked_problem.h"

const gs_linked_problem gs_kpca = {{&gradstream::kKpcaOps, nullptr}};
