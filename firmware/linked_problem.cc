#include "firmware/linked_problem.h"

const gs_linked_problem gs_kpca = {{&gradstream::kKpcaOps, nullptr}};
const gs_linked_problem gs_brockett = {{&gradstream::kBrockettOps, nullptr}};
const gs_linked_problem gs_spd_mean = {{&gradstream::kSpdMeanOps, nullptr}};
const gs_linked_problem gs_hyperbolic = {{&gradstream::kHyperbolicMeanOps, nullptr}};
const gs_linked_problem gs_least_squares = {{&gradstream::kLeastSquaresOps, nullptr}};
const gs_linked_problem gs_completion = {{&gradstream::kCompletionOps, nullptr}};
const gs_linked_problem gs_logistic = {{&gradstream::kLogisticOps, nullptr}};
