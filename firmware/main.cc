// main() of every board without an operating system.
#include <iterator>

#include "boards/board.h"
#include "firmware/client_main.h"
#include "firmware/float_shard.h"
#include "firmware/linked_problem.h"

namespace {

constexpr gradstream::ConsolePort kConsole = {gradstream::board_console_read, gradstream::board_check_storage,
                                              gradstream::board_wipe_identity, gradstream::board_own_command};

#if defined(GS_FLOAT_PROBLEM) || defined(GS_PERCEPTRON_WIDTHS)
// An image for another problem than kpca, such as -DGS_FLOAT_PROBLEM=gs_spd_mean: its shard holds floats, or bytes with
// labels.
gradstream::FloatShard float_shard;
gs_sample_source float_samples;

int read_float_sample(const void*, uint32_t index, float* out) {
  gradstream::read_float_shard(float_shard, index, out);
  return 0;
}

#if defined(GS_PERCEPTRON_WIDTHS)
// An image for a perceptron, such as -DGS_PERCEPTRON_WIDTHS=64,16,10: samples are its inputs and a label. With
// GS_FLOAT_PROBLEM too, that one takes the samples of any other dimension.
constexpr uint16_t kWidths[] = {GS_PERCEPTRON_WIDTHS};
gradstream::NetworkData network;
const gs_linked_problem kPerceptron = {{&gradstream::kPerceptronOps, &network}};

gradstream::Status read_network_sample(const void*, uint32_t index, gradstream::Real* out) {
  gradstream::read_float_shard(float_shard, index, out);
  return gradstream::Status::kOk;
}

const gs_linked_problem* float_problem() {
  network = {{nullptr, float_shard.count, float_shard.dimension, read_network_sample}, kWidths, std::size(kWidths)};
#if defined(GS_FLOAT_PROBLEM)
  return float_shard.dimension == kWidths[0] + 1U ? &kPerceptron : &GS_FLOAT_PROBLEM;
#else
  return &kPerceptron;
#endif
}
#else
const gs_linked_problem* float_problem() { return &GS_FLOAT_PROBLEM; }
#endif

// A shard that does not parse stays with client_main(), which refuses it.
void take_float_shard(gradstream::ClientMainOptions* options) {
  if (gradstream::parse_float_shard(options->shard, &float_shard) == gradstream::Status::kOk) {
    float_samples = {&float_shard, float_shard.count, float_shard.dimension, read_float_sample};
    options->samples = &float_samples;
    options->problem = float_problem();
  }
}
#else
void take_float_shard(gradstream::ClientMainOptions*) {}
#endif

}  // namespace

int main() {
  gradstream::board_start();
  gradstream::ClientMainOptions options;
  options.board = GS_BOARD_NAME;
  options.identity_text = gradstream::board_identity_text();
  options.shard = gradstream::board_shard();
  take_float_shard(&options);
  options.arena = gradstream::board_arena();
  options.tls_pool = gradstream::board_tls_pool();
  options.has_storage = gradstream::board_has_storage();
  options.until_finished = gradstream::board_option("until-finished");
  options.stack_high_water_size = gradstream::board_stack_high_water_size;
  options.feed_watchdog = gradstream::board_feed_watchdog;
  options.console = &kConsole;
  options.reset_cause = static_cast<uint32_t>(gradstream::board_reset_cause());
#if defined(GS_PSK_KE_ONLY)
  options.key_exchange = GS_PSK_KE;
#endif
  gradstream::board_stop(gradstream::client_main(options));
}
