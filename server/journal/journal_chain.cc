#include "server/journal/journal_chain.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>

namespace gradstream {

namespace {

constexpr std::string_view kBeginning = "gradstream journal 1";
constexpr size_t kColumnsSize = 9 * 4 + 8 + 2 * 8;
constexpr size_t kBodySizeMin = 2 * 4 + 4;  // without payload and notes

template <typename Number>
uint8_t* put_number(uint8_t* out, Number number) {
  for (size_t i = 0; i < sizeof number; ++i) {
    out[i] = static_cast<uint8_t>(number >> (8 * i));
  }
  return out + sizeof number;
}

uint8_t* put_bytes(uint8_t* out, std::span<const uint8_t> bytes) { return std::copy(bytes.begin(), bytes.end(), out); }

}  // namespace

ChainHead chain_start(const RunIdentity& run) {
  std::array<uint8_t, kBeginning.size() + 4 + 8 + 8> bytes = {};
  uint8_t* out = std::copy(kBeginning.begin(), kBeginning.end(), bytes.data());
  out = put_number(out, run.run);
  out = put_number(out, run.run_nonce);
  put_number(out, run.parameters_digest);
  return {0, sha256(bytes)};
}

ChainHead next_link(const ChainHead& before, const JournalRecord& record, const RecordBody& body) {
  const JournalRow& row = record.row();
  const uint64_t sequence = before.sequence + 1;
  std::array<uint8_t, sizeof before.chain + 8 + 4 + kColumnsSize + 4 + sizeof body.digest> bytes = {};
  uint8_t* out = put_bytes(bytes.data(), before.chain);
  out = put_number(out, sequence);
  out = put_number(out, static_cast<uint32_t>(row.kind));
  for (const uint32_t number : {row.device, row.task_sequence, row.version, row.base_version, row.steps_done,
                                row.weight, row.verdict, row.reason, row.detail}) {
    out = put_number(out, number);
  }
  out = put_number(out, std::bit_cast<uint64_t>(static_cast<double>(row.step_scale)));
  out = put_number(out, row.digest);
  out = put_number(out, row.time_ms);
  out = put_number(out, body.length);
  put_bytes(out, body.digest);
  return {sequence, sha256(bytes)};
}

RecordBody JournalChain::body_of(const JournalRecord& record) {
  const JournalRow& row = record.row();
  bytes_.resize(kBodySizeMin + row.payload.size() + row.notes.size());
  uint8_t* out = bytes_.data();
  out = put_number(out, std::bit_cast<uint32_t>(row.loss_before));
  out = put_number(out, std::bit_cast<uint32_t>(row.loss_after));
  out = put_number(out, static_cast<uint32_t>(row.payload.size()));
  out = put_bytes(out, row.payload);
  put_bytes(out, row.notes);
  return {static_cast<uint32_t>(bytes_.size()), sha256(bytes_)};
}

bool JournalChain::add(const JournalRecord& record) {
  if (record.sequence() != head_.sequence + 1) {
    return false;
  }
  head_ = next_link(head_, record, body_of(record));
  return true;
}

}  // namespace gradstream
