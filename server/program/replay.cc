#include "server/program/replay.h"

#include <algorithm>
#include <utility>

#include "server/base/fields.h"
#include "server/base/log.h"

namespace gradstream {

namespace {

constexpr const char* kRemedy = "; restore the database from a copy, or use the release that wrote it";

std::unique_ptr<Coordinator> make_coordinator(const RunRow& run, const RunParameters& parameters,
                                              const std::vector<EnrolledDevice>& devices) {
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const EnrolledDevice& device : devices) {
    names.push_back(device.name);
  }
  return std::make_unique<Coordinator>(run.id, parameters, names, 1, run.run_nonce);
}

void tell_broken(const RunRow& run, uint64_t sequence) {
  log_event("journal_broken"_event, Fields().add("run", uint64_t{run.id}).add("sequence", sequence));
}

std::string model_text(uint32_t version, uint64_t digest) {
  return "version " + std::to_string(version) + " with digest " + hex(digest);
}

// What became of a checkpoint.
enum class Restoring : uint8_t {
  kDone,
  kUnreadable,  // another one and more records can take its place
  kRefused,     // it reads, and the journal is of another model: *error says so, or the journal does not read
};

// A checkpoint proves itself by a checksum alone. Its record is in the chain.
Restoring compare(const RunRow& run, const Coordinator& coordinator, Store& journal, uint64_t* compared,
                  std::string* error) {
  const uint64_t sequence = coordinator.last_sequence();
  std::optional<JournalRecord> record;
  if (journal.read_version(sequence, &record) != StoreStatus::kOk) {
    return Restoring::kRefused;
  }
  if (!record) {
    return Restoring::kDone;
  }
  ++*compared;
  if (record->version() == coordinator.durable_version() && record->digest() == coordinator.digest()) {
    return Restoring::kDone;
  }
  *error = "the checkpoint of run " + std::to_string(run.id) + " at sequence " + std::to_string(sequence) + " holds " +
           model_text(coordinator.durable_version(), coordinator.digest()) + ", where the journal has " +
           model_text(record->version(), record->digest()) +
           ": one of them was changed; restore the database from a copy, whose checkpoint is an older one";
  return Restoring::kRefused;
}

Restoring restore(const RunRow& run, const RunParameters& parameters, const std::vector<EnrolledDevice>& devices,
                  Store& journal, const CheckpointHead& head, uint64_t* compared, std::unique_ptr<Coordinator>* out,
                  std::string* error) {
  std::vector<uint8_t> bytes;
  if (journal.read_checkpoint(head, &bytes) != StoreStatus::kOk) {
    return Restoring::kUnreadable;
  }
  auto coordinator = make_coordinator(run, parameters, devices);
  if (coordinator->restore(bytes) != Status::kOk || coordinator->last_sequence() != head.sequence) {
    return Restoring::kUnreadable;
  }
  const Restoring restoring = compare(run, *coordinator, journal, compared, error);
  if (restoring == Restoring::kDone) {
    *out = std::move(coordinator);
  }
  return restoring;
}

void warn_of(const RunRow& run, const CheckpointHead& head) {
  log_event("checkpoint_unreadable"_event,
            Fields().add("run", uint64_t{run.id}).add("version", uint64_t{head.version}).add("records", head.sequence));
}

// *out <- the newest checkpoint up to that version that reads; null: none does. kRefused: it is not to be used.
Restoring find_beginning(const RunRow& run, const RunParameters& parameters, const std::vector<EnrolledDevice>& devices,
                         Store& journal, const std::vector<CheckpointHead>& heads, uint32_t version_last,
                         std::unique_ptr<Coordinator>* out, std::string* error) {
  uint64_t compared = 0;
  for (auto head = heads.rbegin(); head != heads.rend(); ++head) {
    if (head->version > version_last) {
      continue;
    }
    const Restoring restoring = restore(run, parameters, devices, journal, *head, &compared, out, error);
    if (restoring != Restoring::kUnreadable) {
      return restoring;
    }
    warn_of(run, *head);
  }
  return Restoring::kUnreadable;
}

}  // namespace

std::string dropped_text(uint32_t run, const std::string& what, const CheckpointHead& start) {
  const std::string first = std::to_string(start.version);
  return what + " of run " + std::to_string(run) +
         (start.is_behind_forgotten
              ? " cannot be made again: updates before version " + first + " were forgotten (gradstream run forget)"
              : " was dropped, with all records before version " + first + ", as server.journal_keep says") +
         "; name a later version, or use a copy of the database that has it";
}

std::unique_ptr<Coordinator> begin_replay(const RunRow& run, const RunParameters& parameters,
                                          const std::vector<EnrolledDevice>& devices, Store& journal,
                                          CheckpointHead* start, std::string* error, Beginning beginning) {
  if (journal.read_start(start) != StoreStatus::kOk) {
    return nullptr;
  }
  if (start->sequence == 0) {
    return make_coordinator(run, parameters, devices);
  }
  std::unique_ptr<Coordinator> coordinator;
  std::vector<CheckpointHead> heads;
  uint64_t compared = 0;
  Restoring restoring = restore(run, parameters, devices, journal, *start, &compared, &coordinator, error);
  if (restoring == Restoring::kUnreadable && beginning == Beginning::kReadable &&
      journal.read_heads(&heads) == StoreStatus::kOk) {
    for (auto head = heads.begin(); head != heads.end() && restoring == Restoring::kUnreadable; ++head) {
      if (head->sequence > start->sequence) {
        restoring = restore(run, parameters, devices, journal, *head, &compared, &coordinator, error);
        *start = restoring == Restoring::kDone ? *head : *start;
      }
    }
  }
  if (restoring == Restoring::kUnreadable) {
    *error = "the checkpoint of run " + std::to_string(run.id) + " at version " + std::to_string(start->version) +
             ", where its journal begins, does not read" + kRemedy;
  }
  return coordinator;
}

std::unique_ptr<Coordinator> replay_journal(const RunRow& run, const RunParameters& parameters,
                                            const std::vector<EnrolledDevice>& devices, Store& journal,
                                            uint32_t version_last, std::string* error) {
  CheckpointHead start;
  std::vector<CheckpointHead> heads;
  if (journal.read_start(&start) != StoreStatus::kOk || journal.read_heads(&heads) != StoreStatus::kOk) {
    return nullptr;
  }
  if (start.sequence != 0 && version_last < start.version) {
    *error = dropped_text(run.id, "version " + std::to_string(version_last), start);
    return nullptr;
  }
  std::unique_ptr<Coordinator> coordinator;
  if (find_beginning(run, parameters, devices, journal, heads, version_last, &coordinator, error) ==
      Restoring::kRefused) {
    if (journal.broken_sequence() != 0) {
      tell_broken(run, journal.broken_sequence());
    }
    return nullptr;
  }
  if (coordinator == nullptr && start.sequence != 0) {
    *error = "no checkpoint of run " + std::to_string(run.id) + " reads, and its records before version " +
             std::to_string(start.version) + " were dropped" + kRemedy;
    return nullptr;
  }
  if (coordinator == nullptr) {
    coordinator = make_coordinator(run, parameters, devices);
  }
  const uint64_t from = coordinator->last_sequence();
  if (from != 0 && coordinator->durable_version() == version_last) {
    return coordinator;
  }
  const StoreStatus read = journal.read_after(from, [&](const JournalRecord& record) {
    if (coordinator->replay(record) != Status::kOk) {
      *error = "the journal of run " + std::to_string(run.id) + " does not replay at sequence " +
               std::to_string(record.sequence()) + kRemedy;
      tell_broken(run, record.sequence());
      return false;
    }
    return record.kind() != RecordKind::kVersion || record.version() < version_last;
  });
  if (journal.broken_sequence() != 0) {
    tell_broken(run, journal.broken_sequence());
  }
  if (!error->empty() || read != StoreStatus::kOk) {
    return nullptr;
  }
  return coordinator;
}

bool check_checkpoints(const RunRow& run, const RunParameters& parameters, const std::vector<EnrolledDevice>& devices,
                       Store& journal, uint64_t* compared, std::string* error) {
  *compared = 0;
  std::vector<CheckpointHead> heads;
  if (journal.read_heads(&heads) != StoreStatus::kOk) {
    return false;
  }
  return std::all_of(heads.begin(), heads.end(), [&](const CheckpointHead& head) {
    std::unique_ptr<Coordinator> coordinator;
    return restore(run, parameters, devices, journal, head, compared, &coordinator, error) != Restoring::kRefused;
  });
}

}  // namespace gradstream
