#include "runtime/base/no_contraction.h"

#include "runtime/link/claim_proof.h"

#include <cstring>

#include <mbedtls/platform_util.h>
#include <psa/crypto.h>

namespace gradstream {
namespace {

constexpr char kTranscriptLabel[] = "gradstream claim 2";
constexpr size_t kDigestSize = 32;  // of SHA-256
constexpr size_t kTranscriptSizeMax =
    sizeof(kTranscriptLabel) - 1 + 2 * (1 + Identity::kNameSizeMax) + 2 * kClaimKeySize;

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
  Key(psa_key_type_t type, psa_algorithm_t algorithm, psa_key_usage_t usage, ClaimKeyView bytes) {
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
  explicit Scalar(ClaimKeyView secret)
      : Key(PSA_KEY_TYPE_ECC_KEY_PAIR(PSA_ECC_FAMILY_MONTGOMERY), PSA_ALG_ECDH, PSA_KEY_USAGE_DERIVE, secret) {}
};

// HMAC-SHA256. out: kDigestSize bytes, which may be those of the key.
bool find_mac(ClaimKeyView key, std::span<const uint8_t> message, uint8_t* out) {
  const Key mac_key(PSA_KEY_TYPE_HMAC, PSA_ALG_HMAC(PSA_ALG_SHA_256), PSA_KEY_USAGE_SIGN_MESSAGE, key);
  size_t size = 0;
  return mac_key.is_good() && psa_mac_compute(mac_key.id(), PSA_ALG_HMAC(PSA_ALG_SHA_256), message.data(),
                                              message.size(), out, kDigestSize, &size) == PSA_SUCCESS;
}

bool find_mac(ClaimKeyView key, std::string_view message, uint8_t* out) {
  return find_mac(key, {reinterpret_cast<const uint8_t*>(message.data()), message.size()}, out);
}

bool find_confirm(ClaimKeyView key, std::string_view whose, uint8_t* out) {
  Wiped<kDigestSize> whole;
  const bool is_good = find_mac(key, whose, whole.bytes);
  std::memcpy(out, whole.bytes, kClaimConfirmSize);
  return is_good;
}

// T.
bool find_transcript(const ClaimTerms& terms, ClaimKeyView server_public, ClaimKeyView device_public, uint8_t* out) {
  uint8_t bytes[kTranscriptSizeMax];
  size_t size = 0;
  const auto put = [&](const void* from, size_t count) {
    std::memcpy(bytes + size, from, count);
    size += count;
  };
  put(kTranscriptLabel, sizeof(kTranscriptLabel) - 1);
  for (const std::string_view name : {terms.claim, terms.name}) {
    const auto length = static_cast<uint8_t>(name.size());
    put(&length, 1);
    put(name.data(), name.size());
  }
  put(server_public.data(), server_public.size());
  put(device_public.data(), device_public.size());
  return psa_hash_compute(PSA_ALG_SHA_256, bytes, size, out, kDigestSize, &size) == PSA_SUCCESS;
}

// RFC 5869 with one block of output, whose counter is the last byte of info. extracted: of HKDF-Extract.
bool expand(ClaimKeyView extracted, std::string_view info_and_one, uint8_t* out) {
  return find_mac(extracted, info_and_one, out);
}

Status find_public(const Scalar& scalar, std::span<uint8_t, kClaimKeySize> out) {
  size_t size = 0;
  return scalar.is_good() && psa_export_public_key(scalar.id(), out.data(), out.size(), &size) == PSA_SUCCESS
             ? Status::kOk
             : Status::kClosed;
}

// z, of which nothing is left where it is none.
Status agree(const Scalar& scalar, ClaimKeyView peer, uint8_t* out) {
  size_t size = 0;
  const psa_status_t status = scalar.is_good() ? psa_raw_key_agreement(PSA_ALG_ECDH, scalar.id(), peer.data(),
                                                                       peer.size(), out, kClaimKeySize, &size)
                                               : PSA_ERROR_BAD_STATE;
  return status == PSA_SUCCESS                  ? Status::kOk
         : status == PSA_ERROR_INVALID_ARGUMENT ? Status::kUnauthenticated
                                                : Status::kClosed;
}

struct PublicKeys {
  ClaimKeyView server;
  ClaimKeyView device;
};

Status prove(const ClaimTerms& terms, const PublicKeys& keys, const Scalar& scalar, ClaimKeyView peer,
             ClaimProof* out) {
  if (terms.claim.size() > Identity::kNameSizeMax || terms.name.size() > Identity::kNameSizeMax) {
    return Status::kInvalidArgument;
  }
  Wiped<2 * kClaimKeySize> secrets;  // z | key of the claim
  GS_TRY(agree(scalar, peer, secrets.bytes));
  std::memcpy(secrets.bytes + kClaimKeySize, terms.key.data(), kClaimKeySize);
  std::memcpy(out->device_public, keys.device.data(), kClaimKeySize);
  uint8_t transcript[kDigestSize];
  Wiped<kDigestSize> extracted;
  Wiped<kDigestSize> confirm;  // c
  const bool is_good = find_transcript(terms, keys.server, keys.device, transcript) &&
                       find_mac(transcript, secrets.bytes, extracted.bytes) &&
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

}  // namespace

ClaimProof::~ClaimProof() { mbedtls_platform_zeroize(this, sizeof(*this)); }

Status find_claim_public(ClaimKeyView secret, std::span<uint8_t, kClaimKeySize> out) {
  return find_public(Scalar(secret), out);
}

Status prove_as_device(const ClaimTerms& terms, ClaimKeyView device_secret, ClaimKeyView server_public,
                       ClaimProof* out) {
  const Scalar scalar(device_secret);
  uint8_t device_public[kClaimKeySize];
  GS_TRY(find_public(scalar, device_public));
  return prove(terms, {server_public, device_public}, scalar, server_public, out);
}

Status prove_as_server(const ClaimTerms& terms, ClaimKeyView server_secret, ClaimKeyView device_public,
                       ClaimProof* out) {
  const Scalar scalar(server_secret);
  uint8_t server_public[kClaimKeySize];
  GS_TRY(find_public(scalar, server_public));
  return prove(terms, {server_public, device_public}, scalar, device_public, out);
}

bool is_same_confirm(std::span<const uint8_t, kClaimConfirmSize> a, std::span<const uint8_t, kClaimConfirmSize> b) {
  volatile uint8_t difference = 0;  // so that no compiler stops at the first one
  for (size_t i = 0; i < kClaimConfirmSize; ++i) {
    difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

}  // namespace gradstream
