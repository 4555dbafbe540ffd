#include "server/program/head_key.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <mbedtls/base64.h>
#include <mbedtls/ecp.h>
#include <mbedtls/platform_util.h>
#include <psa/crypto.h>
#include <sys/stat.h>
#include <unistd.h>
extern "C" {
#include <mbedtls/psa_util.h>  // knows no C++
}

#include "host/durable_file.h"
#include "host/file_cause.h"
#include "server/base/private_file.h"
#include "server/base/secret.h"
#include "server/base/sha256.h"
#include "server/base/text_file.h"

namespace gradstream {

namespace {

// Of a key file. Reason: a key of P-256 in PEM has some hundred bytes, and openssl may write the curve's name before
// it.
constexpr uint64_t kKeyFileSizeMax = 8192;
// Of a key in DER, either half. Reason: P-256 takes at most 121 bytes, with room.
constexpr size_t kKeyDerSizeMax = 256;
// Of the same in base64, with its end.
constexpr size_t kKeyTextSizeMax = 4 * ((kKeyDerSizeMax + 2) / 3) + 1;
constexpr size_t kPemLineSize = 64;  // RFC 7468

Sha256Digest hash_of(std::string_view text) {
  return sha256({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// *out: "-----BEGIN label-----" and so on, of the last `size` bytes of `der`. False: it does not fit.
bool write_pem(const char* label, std::span<const uint8_t> der, int size, std::string* out) {
  std::array<unsigned char, kKeyTextSizeMax> text = {};
  size_t length = 0;
  if (size <= 0) {
    return false;
  }
  const std::span<const uint8_t> bytes = der.last(static_cast<size_t>(size));
  if (mbedtls_base64_encode(text.data(), text.size(), &length, bytes.data(), bytes.size()) != 0) {
    return false;
  }
  out->reserve(length + length / kPemLineSize + 128);
  *out = std::string("-----BEGIN ") + label + "-----\n";
  for (size_t at = 0; at < length; at += kPemLineSize) {
    out->append(reinterpret_cast<const char*>(text.data()) + at, std::min(kPemLineSize, length - at));
    *out += '\n';
  }
  *out += std::string("-----END ") + label + "-----\n";
  mbedtls_platform_zeroize(text.data(), text.size());
  return true;
}

// Both halves of a new key, in PEM. False: no random bytes, or no memory.
bool draw_key(std::string* private_text, std::string* public_text) {
  mbedtls_pk_context key;
  mbedtls_pk_init(&key);
  std::array<uint8_t, kKeyDerSizeMax> der = {};
  const bool is_drawn = mbedtls_pk_setup(&key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) == 0 &&
                        mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(key), mbedtls_psa_get_random,
                                            MBEDTLS_PSA_RANDOM_STATE) == 0;
  const bool is_written =
      is_drawn &&
      write_pem("EC PRIVATE KEY", der, mbedtls_pk_write_key_der(&key, der.data(), der.size()), private_text) &&
      write_pem("PUBLIC KEY", der, mbedtls_pk_write_pubkey_der(&key, der.data(), der.size()), public_text);
  mbedtls_platform_zeroize(der.data(), der.size());
  mbedtls_pk_free(&key);
  return is_written;
}

Objection write_new_file(const std::string& path, const std::string& text, mode_t mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  int cause = file < 0 ? errno : write_durably(file, text.data(), text.size());
  if (file >= 0) {
    ::close(file);
    cause = cause == 0 ? sync_folder_of(path.c_str()) : cause;
    if (cause != 0) {
      ::unlink(path.c_str());
    }
  }
  return cause == 0 ? ""
                    : "key file " + path + " cannot be made: " + cause_text(cause) + "; " +
                          remedy_text(cause, cause == EEXIST ? "name another one, for this key may be in use"
                                                             : "check its folder and that disk");
}

}  // namespace

HeadKey::HeadKey() { mbedtls_pk_init(&key_); }

HeadKey::~HeadKey() { mbedtls_pk_free(&key_); }

Objection HeadKey::judge(const std::string& path, bool is_parsed, const char* what) {
  is_set_ = is_parsed && mbedtls_pk_can_do(&key_, MBEDTLS_PK_ECDSA) != 0 && mbedtls_pk_get_bitlen(&key_) == 256;
  if (is_set_) {
    return {};
  }
  mbedtls_pk_free(&key_);
  mbedtls_pk_init(&key_);
  return "key file " + path + " holds no " + what +
         " key of ECDSA over P-256 in PEM; `gradstream run head-key` makes both halves";
}

Objection HeadKey::read_private(const std::string& path) {
  SecretText text;
  if (psa_crypto_init() != PSA_SUCCESS) {
    return "heads cannot be signed: no random bytes from the operating system; check /dev/urandom";
  }
  if (const Objection problem = read_text_file(path, kKeyFileSizeMax, &*text)) {
    return "key file " + path + " " + problem.sentence + "; check its path, and that this user may read it";
  }
  if (text->find("-----BEGIN PUBLIC KEY-----") != std::string::npos) {
    return "key file " + path + " holds a public key, and a head is signed by the private half; name that file";
  }
  if (is_read_by_others(path)) {
    return "key file " + path + " can be read by others, and is a private key; chmod 600 " + path;
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text->c_str());
  return judge(path,
               mbedtls_pk_parse_key(&key_, bytes, text->size() + 1, nullptr, 0, mbedtls_psa_get_random,
                                    MBEDTLS_PSA_RANDOM_STATE) == 0,
               "private");
}

Objection HeadKey::read_public(const std::string& path) {
  std::string text;
  if (const Objection problem = read_text_file(path, kKeyFileSizeMax, &text)) {
    return "key file " + path + " " + problem.sentence + "; check its path, and that this user may read it";
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.c_str());
  return judge(path, mbedtls_pk_parse_public_key(&key_, bytes, text.size() + 1) == 0, "public");
}

std::vector<uint8_t> HeadKey::sign(std::string_view text) {
  const Sha256Digest hash = hash_of(text);
  std::vector<uint8_t> signature(MBEDTLS_PK_SIGNATURE_MAX_SIZE);
  size_t size = 0;
  const int code = mbedtls_pk_sign(&key_, MBEDTLS_MD_SHA256, hash.data(), hash.size(), signature.data(),
                                   signature.size(), &size, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE);
  signature.resize(code == 0 ? size : 0);
  return signature;
}

bool HeadKey::verify(std::string_view text, const std::vector<uint8_t>& signature) {
  const Sha256Digest hash = hash_of(text);
  return is_set_ && !signature.empty() &&  // Mbed TLS adds to the pointer, and none may be null
         mbedtls_pk_verify(&key_, MBEDTLS_MD_SHA256, hash.data(), hash.size(), signature.data(), signature.size()) == 0;
}

Objection make_head_key(const std::string& path) {
  SecretText private_text;
  std::string public_text;
  if (psa_crypto_init() != PSA_SUCCESS || !draw_key(&*private_text, &public_text)) {
    return "no key can be drawn: no random bytes from the operating system; check /dev/urandom";
  }
  Objection problem = write_new_file(path, *private_text, S_IRUSR | S_IWUSR);
  if (!problem) {
    problem = write_new_file(path + ".pub", public_text, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
    if (problem) {
      ::unlink(path.c_str());
    }
  }
  return problem;
}

}  // namespace gradstream
