// The numbers of a Welcome that are the run's own: they are the same for all of its devices and for as long as it
// lasts.
#ifndef GRADSTREAM_RUNTIME_WIRE_RUN_FIELDS_H_
#define GRADSTREAM_RUNTIME_WIRE_RUN_FIELDS_H_

// The list. word: where the saved state of a device keeps the number (runtime/link/client_save.cc); a new one gets a
// new word. Reason for a macro: a table of offsets is 700 bytes of a board's flash less than code for each field.
#define GS_RUN_FIELDS(X)   \
  X(run, 4)                \
  X(manifold, 7)           \
  X(retraction, 8)         \
  X(transport, 9)          \
  X(rows, 10)              \
  X(cols, 11)              \
  X(stream, 12)            \
  X(directions, 13)        \
  X(shared_directions, 14) \
  X(seed, 15)              \
  X(direction_count, 16)   \
  X(model_parts, 17)       \
  X(correction, 26)        \
  X(fold_scale_log2, 27)   \
  X(error_feedback, 29)    \
  X(units, 36)             \
  X(lines, 37)             \
  X(holdout, 38)

namespace gradstream {

// Calls visit(a.field, b.field) for each. A and B are gs_Welcome, or any struct that has members of these names, and
// each may be const. Left out are digests, the nonce and the parts of a product, which are no numbers of 32 bits.
template <typename A, typename B, typename Visit>
constexpr void visit_run_fields(A& a, B& b, Visit&& visit) {
#define GS_VISIT_RUN_FIELD(field, word) visit(a.field, b.field);
  GS_RUN_FIELDS(GS_VISIT_RUN_FIELD)
#undef GS_VISIT_RUN_FIELD
}

}  // namespace gradstream

#endif  // GRADSTREAM_RUNTIME_WIRE_RUN_FIELDS_H_
