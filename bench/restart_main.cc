// gradstream-restart: a database as a long run leaves it, made by the real coordinator and the real store in place of
// months. Its devices are the same messages again and again; what reaches the journal is what a server writes. It does
// not wait for the disk: a server commits as often, and two waits a round would take more time than all the rest.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "host/standard_files.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/random.h"
#include "runtime/training/encoding.h"
#include "server/coordinator/coordinator.h"
#include "server/program/commands.h"
#include "server/program/history_keeper.h"
#include "server/run/run_core.h"
#include "server/store/journal_table.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "gradstream-restart: %s:%d: assertion failed\n", file, line);
  std::abort();
}

namespace {

constexpr uint64_t kRunNonce = 0x7265737461727431;  // the same each time: nothing of a bench is drawn
constexpr uint64_t kFirstMs = 1'700'000'000'000;
constexpr size_t kPieceSize = 768;                    // of an upload, in one message
constexpr uint64_t kUpdatesBetweenWords = 1'000'000;  // some half a minute

// One device: its Pull, and its upload in pieces. Task and version are filled in.
struct Sender {
  DeviceMessage pull = {};
  std::vector<DeviceMessage> upload;
  uint32_t task_sequence = 0;
};

Sender make_sender(const RunParameters& parameters, uint32_t device) {
  Sender sender;
  sender.pull.which_body = gs_DeviceMessage_pull_tag;
  sender.pull.body.pull.has_model = true;
  RandomKey key;
  key.seed = device + 1;
  RandomStream random(key);
  std::vector<Real> values(parameters.value_count());
  for (Real& value : values) {
    value = static_cast<Real>(1e-4 * (random.next_uniform() - 0.5));
  }
  std::vector<uint8_t> bytes(encoded_size(kRealEncoding, values.size()));
  GS_ASSERT(encode_values(kRealEncoding, values.size(), values.data(), bytes.data()) == Status::kOk);
  for (size_t first = 0; first < bytes.size(); first += kPieceSize) {
    const size_t size = std::min(kPieceSize, bytes.size() - first);
    DeviceMessage& message = sender.upload.emplace_back();
    message.which_body = gs_DeviceMessage_update_tangent_tag;
    gs_UpdateTangent& piece = message.body.update_tangent;
    piece.steps_done = 1;
    piece.encoding = static_cast<gs_Encoding>(kRealEncoding);
    piece.first_value = static_cast<uint32_t>(first / sizeof(Real));
    piece.value_count = static_cast<uint32_t>(values.size());
    piece.crc32c = crc32c(0, bytes.data(), bytes.size());
    piece.loss_before = 2;
    piece.loss_after = 1;
    piece.values.size = static_cast<pb_size_t>(size);
    std::memcpy(piece.values.bytes, bytes.data() + first, size);
  }
  return sender;
}

DeviceMessage hello_of(const RunParameters& parameters) {
  DeviceMessage message = {};
  message.which_body = gs_DeviceMessage_hello_tag;
  gs_Hello& hello = message.body.hello;
  hello.protocol_version = kProtocolVersion;
  gs_Capabilities& has = hello.capabilities;
  has.manifolds = has.solvers = has.estimators = has.encodings = ~0U;
  has.features = ~(1U << static_cast<uint32_t>(gs_Feature_FEATURE_NO_LOSSES));
  has.problems_count = 1;
  std::snprintf(has.problems[0], sizeof has.problems[0], "%s", parameters.model->problem.c_str());
  hello.sample_count = 100;
  return message;
}

// The shell of the coordinator: what it decides goes to the database at once.
class Life {
 public:
  Life(Coordinator& coordinator, SqliteStore& store, const JournalKeep& keep)
      : coordinator_(coordinator), store_(store), keep_(keep) {}

  void send(uint32_t device, const DeviceMessage& message) {
    coordinator_.on_message(device + 1, device, message, now_ms_);
    take();
  }
  // kOk, or what the store said.
  StoreStatus persist(std::vector<Sender>* senders) {
    senders_ = senders;
    while (!records_.empty()) {
      GS_TRY_STORE(store_.append(records_));
      const uint64_t sequence = records_.back().sequence();
      records_.clear();
      coordinator_.on_persisted(sequence, ++now_ms_);
      take();
    }
    if (checkpoint_ != nullptr) {
      for (uint64_t written = 0; written < checkpoint_->head.size;) {
        GS_TRY_STORE(store_.write_checkpoint(*checkpoint_, &written));
      }
      for (bool has_more = true; has_more;) {
        GS_TRY_STORE(store_.cut(keep_, &has_more));
      }
      checkpoint_.reset();
    }
    return StoreStatus::kOk;
  }
  void take() {
    for (Action& action : coordinator_.take_actions()) {
      if (action.kind == ActionKind::kPersist) {
        records_.push_back(std::move(action.record));
      } else if (action.kind == ActionKind::kCheckpoint) {
        checkpoint_ = action.checkpoint;
      } else if (action.kind == ActionKind::kSend && action.message.which_body == gs_ServerMessage_task_tag) {
        (*senders_)[action.session - 1].task_sequence = action.message.body.task.task_sequence;
      }
    }
  }

 private:
  Coordinator& coordinator_;
  SqliteStore& store_;
  const JournalKeep keep_;
  uint64_t now_ms_ = kFirstMs;
  std::vector<JournalRecord> records_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<Sender>* senders_ = nullptr;
};

StoreStatus live(const RunParameters& parameters, uint64_t updates, Coordinator& coordinator, Life& life) {
  const uint32_t count = parameters.trigger->device_count;
  std::vector<Sender> senders;
  for (uint32_t device = 0; device < count; ++device) {
    senders.push_back(make_sender(parameters, device));
  }
  coordinator.start(kFirstMs);
  life.take();
  GS_TRY_STORE(life.persist(&senders));
  for (uint32_t device = 0; device < count; ++device) {
    life.send(device, hello_of(parameters));
  }
  for (uint64_t made = 0; made < updates; made += count) {
    for (uint32_t device = 0; device < count; ++device) {
      gs_Pull& pull = senders[device].pull.body.pull;
      pull.version = coordinator.model().version();
      pull.digest = coordinator.digest();
      life.send(device, senders[device].pull);
    }
    GS_TRY_STORE(life.persist(&senders));
    const uint32_t version = coordinator.model().version();
    for (uint32_t device = 0; device < count; ++device) {
      for (DeviceMessage& piece : senders[device].upload) {
        piece.body.update_tangent.task_sequence = senders[device].task_sequence;
        piece.body.update_tangent.base_version = version;
        life.send(device, piece);
      }
    }
    GS_TRY_STORE(life.persist(&senders));
    if ((made + count) / kUpdatesBetweenWords > made / kUpdatesBetweenWords) {
      print_output("making: updates=" + std::to_string(made + count) + " of=" + std::to_string(updates) + "\n");
      flush_output();
    }
  }
  return StoreStatus::kOk;
}

int make(const std::string& config_path, uint64_t updates) {
  Config config;
  if (const Objection problem = load_config(config_path, {}, &config)) {
    std::fprintf(stderr, "gradstream-restart: error: %s\n", problem.sentence.c_str());
    return 1;
  }
  const auto began = std::chrono::steady_clock::now();
  SqliteDatabase database;
  SqliteOptions options;
  options.path = config.server.database;
  options.synchronous_full = false;  // the file need not outlive a power cut
  std::vector<EnrolledDevice> devices;
  for (uint32_t i = 0; i < config.run.trigger->device_count; ++i) {
    EnrolledDevice& device = devices.emplace_back();
    device.index = i;
    device.name = "device-" + std::to_string(i);
    device.key.fill(static_cast<uint8_t>(i + 1));
    device.state = DeviceState::kActive;
  }
  RunRow run;
  if (database.open(options) != StoreStatus::kOk || !database.add_devices(devices, kFirstMs).is_ok() ||
      create_run(database, config, kRunNonce, &run) != kExitOk) {
    std::fprintf(stderr, "gradstream-restart: error: %s\n", database.error().c_str());
    return 1;
  }
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const EnrolledDevice& device : devices) {
    names.push_back(device.name);
  }
  JournalKeep keep;
  parse_journal_keep(config.server.journal_keep, &keep);  // load_config() has checked it
  SqliteStore store(database, run.id);
  Coordinator coordinator(run.id, config.run, names, 1, run.run_nonce);
  coordinator.set_checkpoints(checkpoint_update_count(config.run, keep));
  Life life(coordinator, store, keep);
  if (live(config.run, updates, coordinator, life) != StoreStatus::kOk) {
    std::fprintf(stderr, "gradstream-restart: error: %s\n", database.error().c_str());
    return 1;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  char line[160];
  std::snprintf(line, sizeof line, "made: updates=%llu version=%u digest=%s seconds=%.1f\n",
                static_cast<unsigned long long>(coordinator.counters().updates_folded), coordinator.durable_version(),
                hex(coordinator.digest()).c_str(), seconds);
  print_output(line);
  return coordinator.counters().updates_folded >= updates ? 0 : 1;
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  CLI::App app("Makes the database of a run with so many updates, by the real coordinator and the real store.");
  std::string config;
  uint64_t updates = 1'000'000;
  app.add_option("--config", config, "the server's configuration, with [run]")->required();
  app.add_option("--updates", updates, "accepted updates");
  CLI11_PARSE(app, argc, argv);
  return gradstream::make(config, updates);
}
