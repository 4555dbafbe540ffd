#include "runtime/base/no_contraction.h"

#include "runtime/link/key_agreement.h"

#include <cstring>

#include <mbedtls/platform_util.h>
#include <psa/crypto.h>

namespace gradstream {
namespace {

constexpr char kClaimLabel[] = "gradstream claim 2";
constexpr char kChangeLabel[] = "gradstream key change 1";
constexpr size_t kDigestSize = 32;  // of SHA-256
constexpr size_t kNumberSize = 4;
// A claim has two names behind its label, and a key change one and a number.
constexpr size_t kTranscriptSizeMax =
    sizeof(kChangeLabel) + 2 * (1 + Identity::kNameSizeMax) + kNumberSize + 2 * kAgreedKeySize;
static_assert(sizeof(kClaimLabel) <= sizeof(kChangeLabel));

// Bytes that nobody is to read afterwards.
template <size_t kSize>
struct Wiped {
  uint8_t bytes[kSize] = {};
  Wiped() = default;
  ~Wiped() { mbedtls_platform_zeroize(bytes, kSize); }
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;
};

// A key of Mbed TLS, for one use.
class Key {
 public:
  Key(psa_key_type_t type, psa_algorithm_t algorithm, psa_key_usage_t usage, KeyView bytes) {
    psa_key_attributes_t attributes = PSA_KEY_ATTRIBUTES_INIT;
    psa_set_key_type(&attributes, type);
    psa_set_key_algorithm(&attributes, algorithm);
    psa_set_key_usage_flags(&attributes, usage);
    is_good_ = psa_crypto_init() == PSA_SUCCESS &&
               psa_import_key(&attributes, bytes.data(), bytes.size(), &id_) == PSA_SUCCESS;
  }
  ~Key() { psa_destroy_key(id_); }  // nothing happens to none
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  bool is_good() const { return is_good_; }
  mbedtls_svc_key_id_t id() const { return id_; }

 private:
  mbedtls_svc_key_id_t id_ = MBEDTLS_SVC_KEY_ID_INIT;
  bool is_good_ = false;
};

class Scalar : public Key {
 public:
  explicit Scalar(KeyView secret)
      : Key(PSA_KEY_TYPE_ECC_KEY_PAIR(PSA_ECC_FAMILY_MONTGOMERY), PSA_ALG_ECDH, PSA_KEY_USAGE_DERIVE, secret) {}
};

// HMAC-SHA256. out: kDigestSize bytes, which may be those of the key.
bool find_mac(KeyView key, std::span<const uint8_t> message, uint8_t* out) {
  const Key mac_key(PSA_KEY_TYPE_HMAC, PSA_ALG_HMAC(PSA_ALG_SHA_256), PSA_KEY_USAGE_SIGN_MESSAGE, key);
  size_t size = 0;
  return mac_key.is_good() && psa_mac_compute(mac_key.id(), PSA_ALG_HMAC(PSA_ALG_SHA_256), message.data(),
                                              message.size(), out, kDigestSize, &size) == PSA_SUCCESS;
}

bool find_mac(KeyView key, std::string_view message, uint8_t* out) {
  return find_mac(key, {reinterpret_cast<const uint8_t*>(message.data()), message.size()}, out);
}

bool find_confirm(KeyView key, std::string_view whose, uint8_t* out) {
  Wiped<kDigestSize> whole;
  const bool is_good = find_mac(key, whose, whole.bytes);
  std::memcpy(out, whole.bytes, kConfirmSize);
  return is_good;
}

// The text that T is the digest of.
class Transcript {
 public:
  template <size_t kSize>
  explicit Transcript(const char (&label)[kSize]) {
    put(label, kSize - 1);
  }
  // At most Identity::kNameSizeMax bytes.
  void add_name(std::string_view name) {
    const auto length = static_cast<uint8_t>(name.size());
    put(&length, 1);
    put(name.data(), name.size());
  }
  void add_number(uint32_t number) {
    for (size_t i = 0; i < kNumberSize; ++i) {
      const auto byte = static_cast<uint8_t>(number >> (8 * i));
      put(&byte, 1);
    }
  }
  void add_key(KeyView key) { put(key.data(), key.size()); }
  // out: kDigestSize bytes.
  bool digest(uint8_t* out) const {
    size_t size = 0;
    return psa_hash_compute(PSA_ALG_SHA_256, bytes_, size_, out, kDigestSize, &size) == PSA_SUCCESS;
  }

 private:
  void put(const void* from, size_t count) {
    std::memcpy(bytes_ + size_, from, count);
    size_ += count;
  }

  uint8_t bytes_[kTranscriptSizeMax];
  size_t size_ = 0;
};

// RFC 5869 with one block of output, whose counter is the last byte of info. extracted: of HKDF-Extract.
bool expand(KeyView extracted, std::string_view info_and_one, uint8_t* out) {
  return find_mac(extracted, info_and_one, out);
}

Status find_public(const Scalar& scalar, std::span<uint8_t, kAgreedKeySize> out) {
  size_t size = 0;
  return scalar.is_good() && psa_export_public_key(scalar.id(), out.data(), out.size(), &size) == PSA_SUCCESS
             ? Status::kOk
             : Status::kClosed;
}

// z, of which nothing is left where it is none.
Status agree(const Scalar& scalar, KeyView peer, uint8_t* out) {
  size_t size = 0;
  const psa_status_t status = scalar.is_good() ? psa_raw_key_agreement(PSA_ALG_ECDH, scalar.id(), peer.data(),
                                                                       peer.size(), out, kAgreedKeySize, &size)
                                               : PSA_ERROR_BAD_STATE;
  return status == PSA_SUCCESS                  ? Status::kOk
         : status == PSA_ERROR_INVALID_ARGUMENT ? Status::kUnauthenticated
                                                : Status::kClosed;
}

struct PublicKeys {
  KeyView server;
  KeyView device;
};

// key: that both ends have. transcript: all but the public keys.
Status prove(Transcript& transcript, KeyView key, const PublicKeys& keys, const Scalar& scalar, KeyView peer,
             KeyProof* out) {
  Wiped<2 * kAgreedKeySize> secrets;  // z | key
  GS_TRY(agree(scalar, peer, secrets.bytes));
  std::memcpy(secrets.bytes + kAgreedKeySize, key.data(), kAgreedKeySize);
  std::memcpy(out->device_public, keys.device.data(), kAgreedKeySize);
  transcript.add_key(keys.server);
  transcript.add_key(keys.device);
  uint8_t salt[kDigestSize];  // T
  Wiped<kDigestSize> extracted;
  Wiped<kDigestSize> confirm;  // c
  const bool is_good = transcript.digest(salt) && find_mac(salt, secrets.bytes, extracted.bytes) &&
                       expand(extracted.bytes, "device key\x01", out->device_key) &&
                       expand(extracted.bytes, "confirm\x01", confirm.bytes) &&
                       find_confirm(confirm.bytes, "device", out->confirm_device) &&
                       find_confirm(confirm.bytes, "server", out->confirm_server) &&
                       find_confirm(confirm.bytes, "refused", out->confirm_refused);
  if (!is_good) {
    mbedtls_platform_zeroize(out, sizeof(*out));
  }
  return is_good ? Status::kOk : Status::kClosed;
}

bool is_name(std::string_view name) { return name.size() <= Identity::kNameSizeMax; }

Status prove(const ClaimTerms& terms, const PublicKeys& keys, const Scalar& scalar, KeyView peer, KeyProof* out) {
  if (!is_name(terms.claim) || !is_name(terms.name)) {
    return Status::kInvalidArgument;
  }
  Transcript transcript(kClaimLabel);
  transcript.add_name(terms.claim);
  transcript.add_name(terms.name);
  return prove(transcript, terms.key, keys, scalar, peer, out);
}

Status prove(const KeyChangeTerms& terms, const PublicKeys& keys, const Scalar& scalar, KeyView peer, KeyProof* out) {
  if (!is_name(terms.name)) {
    return Status::kInvalidArgument;
  }
  Transcript transcript(kChangeLabel);
  transcript.add_name(terms.name);
  transcript.add_number(terms.generation);
  return prove(transcript, terms.key, keys, scalar, peer, out);
}

template <typename Terms>
Status prove_device(const Terms& terms, KeyView device_secret, KeyView server_public, KeyProof* out) {
  const Scalar scalar(device_secret);
  uint8_t device_public[kAgreedKeySize];
  GS_TRY(find_public(scalar, device_public));
  return prove(terms, {server_public, device_public}, scalar, server_public, out);
}

template <typename Terms>
Status prove_server(const Terms& terms, KeyView server_secret, KeyView device_public, KeyProof* out) {
  const Scalar scalar(server_secret);
  uint8_t server_public[kAgreedKeySize];
  GS_TRY(find_public(scalar, server_public));
  return prove(terms, {server_public, device_public}, scalar, device_public, out);
}

}  // namespace

KeyProof::~KeyProof() { mbedtls_platform_zeroize(this, sizeof(*this)); }

Status find_public_key(KeyView secret, std::span<uint8_t, kAgreedKeySize> out) {
  return find_public(Scalar(secret), out);
}

Status prove_as_device(const ClaimTerms& terms, KeyView device_secret, KeyView server_public, KeyProof* out) {
  return prove_device(terms, device_secret, server_public, out);
}

Status prove_as_server(const ClaimTerms& terms, KeyView server_secret, KeyView device_public, KeyProof* out) {
  return prove_server(terms, server_secret, device_public, out);
}

Status prove_as_device(const KeyChangeTerms& terms, KeyView device_secret, KeyView server_public, KeyProof* out) {
  return prove_device(terms, device_secret, server_public, out);
}

Status prove_as_server(const KeyChangeTerms& terms, KeyView server_secret, KeyView device_public, KeyProof* out) {
  return prove_server(terms, server_secret, device_public, out);
}

bool is_same_confirm(std::span<const uint8_t, kConfirmSize> a, std::span<const uint8_t, kConfirmSize> b) {
  volatile uint8_t difference = 0;  // so that no compiler stops at the first one
  for (size_t i = 0; i < kConfirmSize; ++i) {
    difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

}  // namespace gradstream
