#include "tests/support/fake_port.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/link/port.h"

namespace gradstream {

FakePort& fake_port() {
  static FakePort port;
  return port;
}

uint64_t port_now_ms() { return fake_port().now_ms; }

void port_sleep_until_ms(uint64_t when_ms) { fake_port().now_ms = std::max(fake_port().now_ms, when_ms); }

Status port_random_bytes(uint8_t* out, size_t size) {
  static uint8_t next = 0;
  for (size_t i = 0; i < size && fake_port().has_random; ++i) {
    out[i] = next++;
  }
  return fake_port().has_random ? Status::kOk : Status::kClosed;
}

Transport port_transport() { return fake_port().transport; }

void port_log_line(const char* text) { fake_port().lines.emplace_back(text); }

Status port_storage_write(const StoragePiece* pieces, size_t count) {
  if (!fake_port().has_storage) {
    return Status::kUnimplemented;
  }
  fake_port().storage.clear();
  fake_port().steps.clear();
  for (size_t i = 0; i < count; ++i) {
    fake_port().storage.insert(fake_port().storage.end(), pieces[i].bytes, pieces[i].bytes + pieces[i].size);
  }
  return Status::kOk;
}

Result<size_t> port_storage_read(uint8_t* out, size_t capacity) {
  if (!fake_port().has_storage) {
    return Status::kUnimplemented;
  }
  std::copy_n(fake_port().storage.begin(), std::min(capacity, fake_port().storage.size()), out);
  return fake_port().storage.size();
}

Status port_step_write(uint32_t index, const StoragePiece* pieces, size_t count) {
  if (!fake_port().has_storage || !fake_port().keeps_steps) {
    return Status::kUnimplemented;
  }
  std::vector<std::vector<uint8_t>>& steps = fake_port().steps;
  steps.resize(index);
  std::vector<uint8_t>& step = steps.emplace_back();
  for (size_t i = 0; i < count; ++i) {
    step.insert(step.end(), pieces[i].bytes, pieces[i].bytes + pieces[i].size);
  }
  return Status::kOk;
}

Result<size_t> port_step_read(uint32_t index, uint8_t* out, size_t capacity) {
  if (!fake_port().has_storage) {
    return Status::kUnimplemented;
  }
  if (index >= fake_port().steps.size()) {
    return size_t{0};
  }
  const std::vector<uint8_t>& step = fake_port().steps[index];
  std::copy_n(step.begin(), std::min(capacity, step.size()), out);
  return step.size();
}

void port_reboot() { std::abort(); }

}  // namespace gradstream
