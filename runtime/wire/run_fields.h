// The numbers of a Welcome that are the run's own: they are the same for all of its devices and for as long as it
// lasts.
#ifndef GRADSTREAM_RUNTIME_WIRE_RUN_FIELDS_H_
#define GRADSTREAM_RUNTIME_WIRE_RUN_FIELDS_H_

namespace gradstream {

// Calls visit(a.field, b.field) for each. A and B are gs_Welcome, or any struct that has members of these names, and
// each may be const. Left out are the two digests and the parts of a product, which are no numbers of 32 bits.
template <typename A, typename B, typename Visit>
constexpr void visit_run_fields(A& a, B& b, Visit&& visit) {
  visit(a.run, b.run);
  visit(a.manifold, b.manifold);
  visit(a.retraction, b.retraction);
  visit(a.transport, b.transport);
  visit(a.rows, b.rows);
  visit(a.cols, b.cols);
  visit(a.stream, b.stream);
  visit(a.directions, b.directions);
  visit(a.shared_directions, b.shared_directions);
  visit(a.seed, b.seed);
  visit(a.direction_count, b.direction_count);
  visit(a.correction, b.correction);
  visit(a.fold_scale_log2, b.fold_scale_log2);
  visit(a.model_parts, b.model_parts);
  visit(a.error_feedback, b.error_feedback);
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_RUN_FIELDS_H_
