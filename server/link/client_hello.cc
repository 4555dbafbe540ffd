#include "server/link/client_hello.h"

#include <algorithm>
#include <vector>

namespace gradstream {

namespace {

constexpr size_t kRecordHeaderSize = 5;     // type, two bytes of version, two of length
constexpr size_t kMessageHeaderSize = 4;    // type, three bytes of length
constexpr uint8_t kMessageClientHello = 1;  // RFC 8446, 4
constexpr uint32_t kExtensionPreSharedKey = 41;
constexpr size_t kVersionAndRandomSize = 2 + 32;

// Fields of big-endian lengths. After a field that is not there as a whole, nothing is.
class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> bytes) : rest_(bytes) {}

  bool is_good() const { return is_good_; }
  bool is_empty() const { return rest_.empty(); }
  uint32_t number(size_t size) {
    uint32_t value = 0;
    for (const uint8_t byte : bytes(size)) {
      value = value << 8 | byte;
    }
    return value;
  }
  std::span<const uint8_t> bytes(size_t size) {
    if (!is_good_ || size > rest_.size()) {
      is_good_ = false;
      return {};
    }
    const std::span<const uint8_t> field = rest_.first(size);
    rest_ = rest_.subspan(size);
    return field;
  }
  // A vector whose length stands in so many bytes before it.
  std::span<const uint8_t> vector(size_t length_size) { return bytes(number(length_size)); }

 private:
  std::span<const uint8_t> rest_;
  bool is_good_ = true;
};

enum class Gathered : uint8_t { kAll, kSome, kOther };

// What the records hold of the first handshake message. kOther: something else stands there.
Gathered gather_message(std::span<const uint8_t> bytes, std::vector<uint8_t>* message) {
  for (;;) {
    if (bytes.empty()) {
      return Gathered::kSome;
    }
    if (bytes[0] != MBEDTLS_SSL_MSG_HANDSHAKE || (bytes.size() > 1 && bytes[1] != 3)) {
      return Gathered::kOther;
    }
    if (bytes.size() < kRecordHeaderSize) {
      return Gathered::kSome;
    }
    const size_t record_size = static_cast<size_t>(bytes[3]) << 8 | bytes[4];
    if (record_size == 0 || record_size > kTlsRecordSizeMax) {
      return Gathered::kOther;
    }
    bytes = bytes.subspan(kRecordHeaderSize);
    const size_t here = std::min(record_size, bytes.size());
    message->insert(message->end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(here));
    if (!message->empty() && message->front() != kMessageClientHello) {
      return Gathered::kOther;
    }
    if (message->size() >= kMessageHeaderSize) {
      const size_t size = static_cast<size_t>((*message)[1]) << 16 | (*message)[2] << 8 | (*message)[3];
      if (kMessageHeaderSize + size > kClientHelloSizeMax) {
        return Gathered::kOther;
      }
      if (message->size() >= kMessageHeaderSize + size) {
        message->resize(kMessageHeaderSize + size);
        return Gathered::kAll;
      }
    }
    bytes = bytes.subspan(here);
  }
}

void read_extension(std::span<const uint8_t> extension, ClientHello* out) {
  out->has_psk = true;
  Cursor cursor(extension);
  Cursor identities(cursor.vector(2));
  const std::span<const uint8_t> identity = identities.vector(2);
  if (identity.size() <= kHelloIdentitySizeMax) {
    out->identity.assign(identity.begin(), identity.end());
  }
}

void read_message(std::span<const uint8_t> message, ClientHello* out) {
  Cursor cursor(message.subspan(kMessageHeaderSize));
  cursor.bytes(kVersionAndRandomSize);
  cursor.vector(1);  // session id
  cursor.vector(2);  // cipher suites
  cursor.vector(1);  // compression methods
  Cursor extensions(cursor.vector(2));
  while (extensions.is_good() && !extensions.is_empty()) {
    const uint32_t type = extensions.number(2);
    const std::span<const uint8_t> extension = extensions.vector(2);
    if (extensions.is_good() && type == kExtensionPreSharedKey) {
      read_extension(extension, out);
    }
  }
}

}  // namespace

ClientHello peek_client_hello(std::span<const uint8_t> bytes) {
  ClientHello hello;
  std::vector<uint8_t> message;
  const Gathered gathered = gather_message(bytes, &message);
  hello.is_hello = gathered == Gathered::kAll;
  hello.is_complete = gathered != Gathered::kSome || bytes.size() >= kClientHelloSizeMax;
  if (hello.is_hello) {
    read_message(message, &hello);
  }
  return hello;
}

}  // namespace gradstream
