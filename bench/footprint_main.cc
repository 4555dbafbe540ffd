// The training of a client with one manifold, for ./run footprint: what a manifold adds to an image is the difference
// from this program without one. The linker names them: chosen_ops is a table of manifold.h or nothing, part_ops that
// of the parts of a product. In an emulator it prints the arena's scratch that the manifold takes; start-up and console
// are those of tests/digest/digest_main.cc.
#include <cstdint>

#include "runtime/problem/problem.h"
#include "runtime/training/solver.h"
#include "tests/digest/digest_console.h"

namespace gradstream {

extern const ManifoldOps chosen_ops __attribute__((weak));
extern const ManifoldOps part_ops __attribute__((weak));
extern const uint8_t chosen_rows[] __attribute__((weak));  // their addresses are the numbers
extern const uint8_t chosen_cols[] __attribute__((weak));

namespace {

constexpr SampleSource kSource = {nullptr, 0, 0, nullptr};
const Problem problems[] = {{&kKpcaOps, &kSource}};
constexpr const EstimatorOps* kEstimators[] = {&kAnalyticGradientOps, &kProjectionOneSidedOps};
constexpr const SolverOps* kSolvers[] = {&kSolverProjectionOps, &kSolverGradientStreamOps};

alignas(8) uint8_t memory[16 * 1024];
Task task;
SolverRun run;
Replica replica;

uint32_t number_of(const uint8_t* symbol) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(symbol)); }

// A product has two halves, a point of fixed rank its three blocks.
Parts make_parts(Shape shape) {
  const Shape half = {shape.rows / 2, shape.cols};
  const Shape thin = {(shape.rows - shape.cols) / 2, shape.cols};
  if (chosen_ops.id == ManifoldId::kProduct) {
    return {2, {{&part_ops, half}, {&part_ops, half}}};
  }
  return {3, {{nullptr, thin}, {nullptr, thin}, {nullptr, {shape.cols, shape.cols}}}};
}

volatile bool trains = false;  // for all the compiler knows

// Is there to be linked.
void train(const ManifoldOps& manifold, Shape shape) {
  Arena arena(memory, sizeof(memory));
  Status status = replica.prepare(manifold, shape, arena);
  const ManifoldOps* const manifolds[] = {&manifold};
  const Registry registry = {manifolds, kEstimators, kSolvers, problems};
  Real* const model = replica.begin_snapshot();
  status = status == Status::kOk ? begin_solver(registry, task, model, model, &run, arena) : status;
  status = status == Status::kOk ? run.ops->step(run, arena) : status;
  status = status == Status::kOk ? replica.begin_record() : status;
  status = status == Status::kOk ? replica.finish_record(1, 1, arena) : status;
  GS_ASSERT(status == Status::kOk);
}

void print(size_t number) {
  char digits[11] = {};
  size_t at = sizeof(digits) - 1;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  console_write("scratch ");
  console_write(digits + at);
  console_write("\n");
}

}  // namespace
}  // namespace gradstream

int main() {
  using namespace gradstream;
  Shape shape = {number_of(chosen_rows), number_of(chosen_cols)};
  const Parts parts = make_parts(shape);
  shape.parts = &parts;
  print(chosen_ops.scratch_size(shape));
  if (trains) {
    train(chosen_ops, shape);
  }
  return 0;
}
