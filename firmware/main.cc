// main() of every board without an operating system.
#include <iterator>

#include "boards/board.h"
#include "firmware/client_main.h"
#include "firmware/console.h"
#include "firmware/flash_network.h"
#include "firmware/float_shard.h"
#include "firmware/line.h"
#include "firmware/shard.h"
#include "include/gradstream/problem.h"
#include "runtime/link/port.h"

namespace {

constexpr gradstream::ConsolePort kConsole = {gradstream::board_console_read, gradstream::board_check_storage,
                                              gradstream::board_wipe_identity, gradstream::board_own_command};

#if defined(GS_OWN_PROBLEM)
// An image whose loss is an application's, such as -DGS_OWN_PROBLEM=plant_problem: this function makes the problem.
// What the shard holds, floats, is the application's too.
extern "C" const gs_linked_problem* GS_OWN_PROBLEM(const gs_sample_source* shard);
#endif

#if defined(GS_OWN_PRIVACY)
// An image whose application puts its floors elsewhere, such as -DGS_OWN_PRIVACY=plant_privacy.
extern "C" gs_privacy GS_OWN_PRIVACY(void);
#endif

#if defined(GS_FLOAT_PROBLEM) || defined(GS_PERCEPTRON_WIDTHS) || defined(GS_NETWORK) || defined(GS_OWN_PROBLEM)
// Stops where the region holds a float shard that is none: client_main() would ask for one of bytes.
void refuse_bad_floats(std::span<const uint8_t> region, gradstream::Status status) {
  using gradstream::Status;
  if (status == Status::kOk || !gradstream::is_float_shard(region)) {
    return;
  }
  gradstream::port_log_line(gradstream::ConsoleLine("failed")
                                .quoted("reason", status == Status::kDataCorrupt ? "a truncated shard: write it again"
                                                  : status == Status::kNotFinite ? "a value is no number: mend the data"
                                                                                 : "a number is beyond its limit: "
                                                                                   "docs/data.md")
                                .c_str());
  gradstream::board_stop(gradstream::kExitData);
}
#endif

#if defined(GS_FLOAT_PROBLEM) || defined(GS_PERCEPTRON_WIDTHS) || defined(GS_OWN_PROBLEM)
// An image for another problem than kpca, such as -DGS_FLOAT_PROBLEM=gs_spd_mean: its shard holds floats, or bytes with
// labels. With gs_kpca it is an image for kpca that reads every shard.
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
#elif defined(GS_OWN_PROBLEM)
const gs_linked_problem* float_problem() { return GS_OWN_PROBLEM(&float_samples); }
#else
const gs_linked_problem* float_problem() { return &GS_FLOAT_PROBLEM; }
#endif

// A shard of bytes stays with client_main().
void take_float_shard(gradstream::ClientMainOptions* options) {
  const gradstream::Status status = gradstream::parse_float_shard(options->shard, &float_shard);
  refuse_bad_floats(options->shard, status);
  if (status == gradstream::Status::kOk) {
    float_samples = {&float_shard, float_shard.count, float_shard.dimension, read_float_sample};
    options->samples = &float_samples;
    options->problem = float_problem();
  }
}
#else
void take_float_shard(gradstream::ClientMainOptions*) {}
#endif

#if defined(GS_NETWORK)
// An image for networks that users bring: one stands behind the shard, of any kind.
struct NetworkShard {
  gradstream::FloatShard floats;
  gradstream::Shard bytes;
  gs_sample_bytes byte_view;  // of `bytes`, for a run of kpca
  gs_sample_source samples;
  gradstream::FlashNetwork network;
};
NetworkShard network_shard;

int read_floats(const void*, uint32_t index, float* out) {
  gradstream::read_float_shard(network_shard.floats, index, out);
  return 0;
}

int read_bytes(const void*, uint32_t index, float* out) {
  gradstream::read_shard(network_shard.bytes, index, out);
  return 0;
}

gradstream::Status read_row(const void*, uint32_t index, gradstream::Real* out) {
  return gradstream::status_of_callback(network_shard.samples.read(nullptr, index, out));
}

// Bytes of the shard; 0: there is none, as client_main() will say.
size_t open_network_shard(std::span<const uint8_t> region) {
  gradstream::FloatShard& floats = network_shard.floats;
  gradstream::Shard& bytes = network_shard.bytes;
  const gradstream::Status status = gradstream::parse_float_shard(region, &floats);
  refuse_bad_floats(region, status);
  if (status == gradstream::Status::kOk) {
    network_shard.samples = {nullptr, floats.count, floats.dimension, read_floats};
    return gradstream::float_shard_size(floats, region);
  }
  if (gradstream::parse_shard(region, &bytes) == gradstream::Status::kOk) {
    network_shard.byte_view = {bytes.values, bytes.mean, bytes.scale};
    network_shard.samples = {nullptr, bytes.count, bytes.dimension, read_bytes, &network_shard.byte_view};
    return static_cast<size_t>(bytes.values - region.data()) + size_t{bytes.count} * bytes.dimension;
  }
  return 0;
}

// Whether the image has the manifold of factored layers. A board without room for it says so in its CMakeLists.txt.
#if defined(GS_NO_FIXED_RANK)
constexpr bool kTrainsFactors = false;
#else
constexpr bool kTrainsFactors = true;
#endif

// Whether the image trains the network's layers; if not, the console says which one it does not.
bool can_train(const gradstream::Network& network) {
  const uint32_t layer = kTrainsFactors ? network.layer_count : gradstream::first_factored_layer(network);
  if (layer == network.layer_count) {
    return true;
  }
  gradstream::ConsoleLine line("failed");
  line.quoted("reason", "this image trains no factored layers: write a dense one, or take another board");
  gradstream::port_log_line(line.number("layer", layer).c_str());
  return false;
}

// Each evaluation now computes them anew. What to do: docs/network.md.
void log_features_given_up() { gradstream::port_log_line("event=features_not_kept"); }

// False: there is a network that cannot be used; the console says why.
bool take_network(gradstream::ClientMainOptions* options) {
  using gradstream::Status;
  const size_t size = open_network_shard(options->shard);
  if (size == 0) {
    return true;
  }
  const gs_sample_source& samples = network_shard.samples;
  gradstream::GsnFault fault;
  const Status status = gradstream::take_flash_network(gradstream::behind_shard(options->shard, size),
                                                       {nullptr, samples.count, samples.dimension, read_row},
                                                       &options->arena, &network_shard.network, &fault);
  if (status == Status::kOk || status == Status::kUnimplemented) {
    options->samples = &samples;
    network_shard.network.samples.on_features_given_up = log_features_given_up;
    options->problem = status == Status::kOk ? &network_shard.network.problem : options->problem;
    return status != Status::kOk || can_train(network_shard.network.network);
  }
  gradstream::ConsoleLine line("failed");
  line.quoted("reason", status == Status::kOutOfMemory   ? "the network's layers do not fit the arena"
                        : status == Status::kDataCorrupt ? "the network in flash is damaged: docs/network.md"
                        : status == Status::kOutOfRange  ? "the network trains nothing: mark a layer as trained"
                                                         : "the samples are not the network's inputs and targets");
  if (status == Status::kDataCorrupt) {
    if (fault.is_of_layer) {
      line.number("layer", fault.layer);
    }
    line.number("byte", fault.offset).number("value", fault.value).number("limit", fault.limit);
    line.number("fault", static_cast<uint32_t>(fault.code)).number("network", static_cast<uint32_t>(fault.network));
  }
  gradstream::port_log_line(line.c_str());
  return false;
}
#else
bool take_network(gradstream::ClientMainOptions*) { return true; }
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
  if (!take_network(&options)) {
    gradstream::board_stop(gradstream::kExitData);
  }
  options.tls_pool = gradstream::board_tls_pool();
  options.has_storage = gradstream::board_has_storage();
  options.until_finished = gradstream::board_option("until-finished");
#if defined(GS_OWN_PRIVACY)
  options.privacy = GS_OWN_PRIVACY();
#endif
#if defined(GS_EMULATOR)
  if (gradstream::board_option("no-floors")) {  // of a demo or a test, whose samples are nobody's
    options.privacy = gradstream::no_privacy();
  }
#endif
  options.stack_high_water_size = gradstream::board_stack_high_water_size;
  options.feed_watchdog = gradstream::board_feed_watchdog;
  options.console = &kConsole;
  options.reset_cause = static_cast<uint32_t>(gradstream::board_reset_cause());
#if defined(GS_PSK_KE_ONLY)
  options.key_exchange = GS_PSK_KE;
#endif
  gradstream::board_stop(gradstream::client_main(options));
}
