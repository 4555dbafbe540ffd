#include "server/program/replay.h"

#include <utility>

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

// Null: the checkpoint does not read.
std::unique_ptr<Coordinator> restored(const RunRow& run, const RunParameters& parameters,
                                      const std::vector<EnrolledDevice>& devices, Store& journal,
                                      const CheckpointHead& head) {
  std::vector<uint8_t> bytes;
  if (journal.read_checkpoint(head, &bytes) != StoreStatus::kOk) {
    return nullptr;
  }
  auto coordinator = make_coordinator(run, parameters, devices);
  const bool is_restored = coordinator->restore(bytes) == Status::kOk && coordinator->last_sequence() == head.sequence;
  return is_restored ? std::move(coordinator) : nullptr;
}

void warn_of(const RunRow& run, const CheckpointHead& head) {
  log_event("checkpoint_unreadable"_event,
            Fields().add("run", uint64_t{run.id}).add("version", uint64_t{head.version}).add("records", head.sequence));
}

void tell_broken(const RunRow& run, uint64_t sequence) {
  log_event("journal_broken"_event, Fields().add("run", uint64_t{run.id}).add("sequence", sequence));
}

// Puts the newest checkpoint in place that reads, else a coordinator that has seen nothing. Null: no records lead on.
std::unique_ptr<Coordinator> find_beginning(const RunRow& run, const RunParameters& parameters,
                                            const std::vector<EnrolledDevice>& devices, Store& journal,
                                            const std::vector<CheckpointHead>& heads, uint32_t version_last) {
  for (auto head = heads.rbegin(); head != heads.rend(); ++head) {
    if (head->version > version_last) {
      continue;
    }
    if (auto coordinator = restored(run, parameters, devices, journal, *head)) {
      return coordinator;
    }
    warn_of(run, *head);
  }
  return nullptr;
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
  auto coordinator = start->sequence == 0 ? make_coordinator(run, parameters, devices)
                                          : restored(run, parameters, devices, journal, *start);
  std::vector<CheckpointHead> heads;
  if (coordinator == nullptr && beginning == Beginning::kReadable && journal.read_heads(&heads) == StoreStatus::kOk) {
    for (auto head = heads.begin(); head != heads.end() && coordinator == nullptr; ++head) {
      coordinator = head->sequence > start->sequence ? restored(run, parameters, devices, journal, *head) : nullptr;
      *start = coordinator != nullptr ? *head : *start;
    }
  }
  if (coordinator == nullptr) {
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
  auto coordinator = find_beginning(run, parameters, devices, journal, heads, version_last);
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

}  // namespace gradstream
