#include "server/program/run_head.h"

#include <utility>

namespace gradstream {

namespace {

// Compares heads with the journal as its records come.
class HeadCheck {
 public:
  HeadCheck(const RunRow& run, std::span<const JournalHead> heads, const ChainHead& start, HeadReport* out)
      : run_(run), heads_(heads), out_(*out) {
    out_.start = start;
    for (; next_ < heads_.size() && heads_[next_].record.sequence < start.sequence && is_good(); ++next_) {
      is_of_run(heads_[next_]) ? void(++out_.not_kept) : note_bad(HeadFinding::kOtherRun);
    }
    pass(start);
  }

  // False: a head does not fit, and nothing more is to be read.
  bool take(const JournalRecord& record, const ChainHead& with_it) {
    if (record.kind() == RecordKind::kVersion) {
      version_ = {record.version(), record.digest()};
    }
    pass(with_it);
    return is_good();
  }

  void end() {
    if (is_good() && next_ < heads_.size()) {
      note_bad(is_of_run(heads_[next_]) ? HeadFinding::kMissing : HeadFinding::kOtherRun);
    }
  }

 private:
  bool is_good() const { return out_.finding == HeadFinding::kContained; }
  bool is_of_run(const JournalHead& head) const { return head.run == run_.id && head.run_nonce == run_.run_nonce; }

  void note_bad(HeadFinding finding) {
    out_.finding = finding;
    out_.bad = next_;
  }

  void pass(const ChainHead& at) {
    out_.end = at;
    for (; next_ < heads_.size() && heads_[next_].record.sequence == at.sequence && is_good(); ++next_) {
      const JournalHead& head = heads_[next_];
      // The version that a cut begins at stands in no record that is kept.
      const bool is_version_same = !version_ || *version_ == std::pair(head.version, head.digest);
      if (!is_of_run(head) || head.record != at || !is_version_same) {
        return note_bad(is_of_run(head) ? HeadFinding::kOther : HeadFinding::kOtherRun);
      }
      ++out_.contained;
      out_.same_sequence = at.sequence;
    }
  }

  const RunRow& run_;
  const std::span<const JournalHead> heads_;
  HeadReport& out_;
  size_t next_ = 0;
  std::optional<std::pair<uint32_t, uint64_t>> version_;  // the last one that a record began, and its digest
};

}  // namespace

Expected<std::optional<JournalHead>> read_head(SqliteStore& journal, const RunRow& run, uint64_t time_ms) {
  JournalHead head;
  head.run = run.id;
  head.run_nonce = run.run_nonce;
  head.time_ms = time_ms;
  bool has_version = false;
  GS_TRY_STORE(journal.read_chain_end(&head.record));
  GS_TRY_STORE(journal.skim_back(UINT32_MAX, [&](const JournalRecord& record) {
    has_version = record.kind() == RecordKind::kVersion;
    if (has_version) {
      head.version = record.version();
      head.digest = record.digest();
    }
    return !has_version;
  }));
  return has_version ? std::optional(head) : std::nullopt;
}

StoreStatus check_heads(SqliteStore& journal, const RunRow& run, std::span<const JournalHead> heads, HeadReport* out) {
  *out = {};
  ChainHead start;
  GS_TRY_STORE(journal.read_kept_start(&start));
  HeadCheck check(run, heads, start, out);
  GS_TRY_STORE(journal.walk_chain(
      [&](const JournalRecord& record, const ChainHead& with_it) { return check.take(record, with_it); }));
  check.end();
  const bool is_short = out->finding == HeadFinding::kMissing;
  const bool is_unproven = out->finding == HeadFinding::kContained && out->contained == 0;
  return is_short || is_unproven ? journal.check_pages() : StoreStatus::kOk;
}

}  // namespace gradstream
