// X25519 by Mbed TLS's interface, as TLS calls it: published vectors, and Mbed TLS's own curve beside it.
#include "cmake/x25519_driver.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <mbedtls/ecp.h>
#include <psa/crypto.h>

namespace {

using Bytes = std::array<uint8_t, 32>;
constexpr psa_key_type_t kPair = PSA_KEY_TYPE_ECC_KEY_PAIR(PSA_ECC_FAMILY_MONTGOMERY);

Bytes from_hex(const std::string& text) {
  Bytes bytes{};
  EXPECT_EQ(text.size(), 2 * bytes.size()) << text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

Bytes draw(std::mt19937* random) {
  Bytes bytes{};
  std::generate(bytes.begin(), bytes.end(), [random] { return static_cast<uint8_t>((*random)()); });
  return bytes;
}

psa_key_attributes_t attributes_of(size_t bits) {
  psa_key_attributes_t attributes = PSA_KEY_ATTRIBUTES_INIT;
  psa_set_key_type(&attributes, kPair);
  psa_set_key_bits(&attributes, bits);
  psa_set_key_algorithm(&attributes, PSA_ALG_ECDH);
  psa_set_key_usage_flags(&attributes, PSA_KEY_USAGE_DERIVE | PSA_KEY_USAGE_EXPORT);
  return attributes;
}

class X25519Driver : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(psa_crypto_init(), PSA_SUCCESS); }

  static mbedtls_svc_key_id_t import(const Bytes& scalar) {
    const psa_key_attributes_t attributes = attributes_of(255);
    mbedtls_svc_key_id_t key = MBEDTLS_SVC_KEY_ID_INIT;
    EXPECT_EQ(psa_import_key(&attributes, scalar.data(), scalar.size(), &key), PSA_SUCCESS);
    return key;
  }

  static psa_status_t agree(const Bytes& scalar, const Bytes& point, Bytes* secret) {
    const mbedtls_svc_key_id_t key = import(scalar);
    size_t size = 0;
    const psa_status_t status =
        psa_raw_key_agreement(PSA_ALG_ECDH, key, point.data(), point.size(), secret->data(), secret->size(), &size);
    EXPECT_TRUE(status != PSA_SUCCESS || size == secret->size());
    EXPECT_EQ(psa_destroy_key(key), PSA_SUCCESS);
    return status;
  }

  static Bytes public_key(const Bytes& scalar) {
    const mbedtls_svc_key_id_t key = import(scalar);
    Bytes point{};
    size_t size = 0;
    EXPECT_EQ(psa_export_public_key(key, point.data(), point.size(), &size), PSA_SUCCESS);
    EXPECT_EQ(size, point.size());
    EXPECT_EQ(psa_destroy_key(key), PSA_SUCCESS);
    return point;
  }
};

// RFC 7748, section 5.2. The vector of a million iterations takes a minute; those of 1 and 1,000 are here.
TEST_F(X25519Driver, VectorsOfTheRfcHold) {
  Bytes secret{};
  ASSERT_EQ(agree(from_hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
                  from_hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"), &secret),
            PSA_SUCCESS);
  EXPECT_EQ(secret, from_hex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"));
  ASSERT_EQ(agree(from_hex("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d"),
                  from_hex("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493"), &secret),
            PSA_SUCCESS);
  EXPECT_EQ(secret, from_hex("95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"));

  Bytes scalar{9}, point{9};
  for (int turn = 1; turn <= 1000; ++turn) {
    ASSERT_EQ(agree(scalar, point, &secret), PSA_SUCCESS);
    point = scalar;
    scalar = secret;
    if (turn == 1) {
      EXPECT_EQ(scalar, from_hex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"));
    }
  }
  EXPECT_EQ(scalar, from_hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"));
}

// RFC 7748, section 6.1.
TEST_F(X25519Driver, BothEndsAgree) {
  const Bytes a = from_hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  const Bytes b = from_hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  const Bytes a_public = from_hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  const Bytes b_public = from_hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  EXPECT_EQ(public_key(a), a_public);
  EXPECT_EQ(public_key(b), b_public);
  Bytes of_a{}, of_b{};
  ASSERT_EQ(agree(a, b_public, &of_a), PSA_SUCCESS);
  ASSERT_EQ(agree(b, a_public, &of_b), PSA_SUCCESS);
  EXPECT_EQ(of_a, from_hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"));
  EXPECT_EQ(of_b, of_a);
}

TEST_F(X25519Driver, EveryCaseOfWycheproofHolds) {
  std::ifstream file(GS_SOURCE_DIR "/tests/golden/x25519_wycheproof.txt");
  ASSERT_TRUE(file);
  int cases = 0, refused = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string number, point, scalar, expected;
    words >> number >> point >> scalar >> expected;
    Bytes secret{};
    const psa_status_t status = agree(from_hex(scalar), from_hex(point), &secret);
    if (from_hex(expected) == Bytes{}) {
      EXPECT_EQ(status, PSA_ERROR_INVALID_ARGUMENT) << "case " << number;
      ++refused;
    } else {
      EXPECT_EQ(status, PSA_SUCCESS) << "case " << number;
      EXPECT_EQ(secret, from_hex(expected)) << "case " << number;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 518);
  EXPECT_EQ(refused, 31);
}

// Mbed TLS's own curve is in this build for certificates.
TEST_F(X25519Driver, MbedTlsComputesTheSame) {
  mbedtls_ecp_group curve;
  mbedtls_ecp_group_init(&curve);
  ASSERT_EQ(mbedtls_ecp_group_load(&curve, MBEDTLS_ECP_DP_CURVE25519), 0);
  std::mt19937 random(7748);
  const auto draw_for_mbedtls = [](void* context, unsigned char* out, size_t size) {
    std::generate(out, out + size,
                  [context] { return static_cast<uint8_t>((*static_cast<std::mt19937*>(context))()); });
    return 0;
  };
  for (int turn = 0; turn < 32; ++turn) {
    Bytes scalar = draw(&random);
    const Bytes point = draw(&random);
    Bytes secret{};
    ASSERT_EQ(agree(scalar, point, &secret), PSA_SUCCESS);

    mbedtls_ecp_keypair pair;
    mbedtls_ecp_point in, out;
    mbedtls_ecp_keypair_init(&pair);
    mbedtls_ecp_point_init(&in);
    mbedtls_ecp_point_init(&out);
    EXPECT_EQ(mbedtls_ecp_read_key(MBEDTLS_ECP_DP_CURVE25519, &pair, scalar.data(), scalar.size()), 0);
    EXPECT_EQ(mbedtls_ecp_point_read_binary(&curve, &in, point.data(), point.size()), 0);
    mbedtls_mpi d;
    mbedtls_mpi_init(&d);
    EXPECT_EQ(mbedtls_ecp_export(&pair, nullptr, &d, nullptr), 0);
    EXPECT_EQ(mbedtls_ecp_mul(&curve, &out, &d, &in, draw_for_mbedtls, &random), 0);
    Bytes expected{};
    size_t size = 0;
    EXPECT_EQ(mbedtls_ecp_point_write_binary(&curve, &out, MBEDTLS_ECP_PF_COMPRESSED, &size, expected.data(),
                                             expected.size()),
              0);
    EXPECT_EQ(secret, expected) << "turn " << turn;
    mbedtls_mpi_free(&d);
    mbedtls_ecp_point_free(&out);
    mbedtls_ecp_point_free(&in);
    mbedtls_ecp_keypair_free(&pair);
  }
  mbedtls_ecp_group_free(&curve);
}

TEST_F(X25519Driver, APrivateKeyIsStoredClamped) {
  Bytes ones;
  ones.fill(0xFF);
  const mbedtls_svc_key_id_t key = import(ones);
  Bytes stored{};
  size_t size = 0;
  ASSERT_EQ(psa_export_key(key, stored.data(), stored.size(), &size), PSA_SUCCESS);
  EXPECT_EQ(size, 32U);
  EXPECT_EQ(stored[0], 0xF8);
  EXPECT_EQ(stored[31], 0x7F);
  EXPECT_EQ(psa_destroy_key(key), PSA_SUCCESS);
}

TEST_F(X25519Driver, GeneratedKeysAreClampedAndDiffer) {
  const psa_key_attributes_t attributes = attributes_of(255);
  std::array<Bytes, 2> stored{};
  for (Bytes& bytes : stored) {
    mbedtls_svc_key_id_t key = MBEDTLS_SVC_KEY_ID_INIT;
    ASSERT_EQ(psa_generate_key(&attributes, &key), PSA_SUCCESS);
    size_t size = 0;
    ASSERT_EQ(psa_export_key(key, bytes.data(), bytes.size(), &size), PSA_SUCCESS);
    EXPECT_EQ(bytes[0] & 7, 0);
    EXPECT_EQ(bytes[31] & 0xC0, 0x40);
    EXPECT_EQ(psa_destroy_key(key), PSA_SUCCESS);
  }
  EXPECT_NE(stored[0], stored[1]);
}

TEST_F(X25519Driver, RefusesWhatIsNoKey) {
  const psa_key_attributes_t attributes = attributes_of(255);
  const Bytes scalar{1, 2, 3}, point{9};
  mbedtls_svc_key_id_t key = MBEDTLS_SVC_KEY_ID_INIT;
  EXPECT_EQ(psa_import_key(&attributes, scalar.data(), scalar.size() - 1, &key), PSA_ERROR_INVALID_ARGUMENT);
  Bytes secret{};
  size_t size = 0;
  const Bytes stored = scalar;
  EXPECT_EQ(gs_x25519_key_agreement(&attributes, stored.data(), stored.size(), PSA_ALG_ECDH, point.data(), 31,
                                    secret.data(), secret.size(), &size),
            PSA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(gs_x25519_key_agreement(&attributes, stored.data(), stored.size(), PSA_ALG_ECDH, point.data(), 32,
                                    secret.data(), 31, &size),
            PSA_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(gs_x25519_export_public_key(&attributes, stored.data(), stored.size(), secret.data(), 31, &size),
            PSA_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(gs_x25519_generate_key(&attributes, secret.data(), 31, &size), PSA_ERROR_BUFFER_TOO_SMALL);
}

TEST_F(X25519Driver, LeavesOtherKeysToMbedTls) {
  psa_key_attributes_t other = PSA_KEY_ATTRIBUTES_INIT;
  psa_set_key_type(&other, PSA_KEY_TYPE_ECC_KEY_PAIR(PSA_ECC_FAMILY_SECP_R1));
  psa_set_key_bits(&other, 256);
  Bytes bytes{};
  size_t size = 0, bits = 0;
  EXPECT_EQ(gs_x25519_generate_key(&other, bytes.data(), bytes.size(), &size), PSA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(gs_x25519_import_key(&other, bytes.data(), bytes.size(), bytes.data(), bytes.size(), &size, &bits),
            PSA_ERROR_NOT_SUPPORTED);
  psa_key_attributes_t curve448 = attributes_of(448);
  EXPECT_EQ(gs_x25519_generate_key(&curve448, bytes.data(), bytes.size(), &size), PSA_ERROR_NOT_SUPPORTED);
}

// As Mbed TLS's own import and agreement.
TEST_F(X25519Driver, APublicKeyIsJudgedAndIsNoScalar) {
  psa_key_attributes_t attributes = attributes_of(255);
  psa_set_key_type(&attributes, PSA_KEY_TYPE_ECC_PUBLIC_KEY(PSA_ECC_FAMILY_MONTGOMERY));
  const Bytes zero{}, point{9};
  mbedtls_svc_key_id_t key = MBEDTLS_SVC_KEY_ID_INIT;
  EXPECT_EQ(psa_import_key(&attributes, zero.data(), zero.size(), &key), PSA_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(psa_import_key(&attributes, point.data(), point.size(), &key), PSA_SUCCESS);
  Bytes secret{};
  size_t size = 0;
  EXPECT_EQ(psa_raw_key_agreement(PSA_ALG_ECDH, key, point.data(), point.size(), secret.data(), secret.size(), &size),
            PSA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(psa_destroy_key(key), PSA_SUCCESS);
}

constexpr size_t kStackSize = 4096;  // more than a call takes

// What earlier calls have left below this one's frame.
[[gnu::noinline]] void copy_stack(uint8_t* out) {
  const volatile uint8_t* const end = static_cast<const uint8_t*>(__builtin_frame_address(0)) - kStackSize;
  for (size_t i = 0; i < kStackSize; ++i) {
    out[i] = end[i];
  }
}

TEST_F(X25519Driver, LeavesNoSecretOnTheStack) {
#if !defined(__x86_64__) || defined(GS_SANITIZED)
  GTEST_SKIP() << "limbs of 51 bits, in frames without a sanitizer's margins, are looked for";
#else
  const psa_key_attributes_t attributes = attributes_of(255);
  const Bytes scalar{8, 1, 2, 3}, point{9};
  Bytes secret{};
  size_t size = 0;
  ASSERT_EQ(gs_x25519_key_agreement(&attributes, scalar.data(), scalar.size(), PSA_ALG_ECDH, point.data(), point.size(),
                                    secret.data(), secret.size(), &size),
            PSA_SUCCESS);
  static uint8_t left[kStackSize];
  copy_stack(left);
  uint64_t limb = 0;  // the second of the secret: bits 51 to 101
  for (size_t bit = 0; bit < 51; ++bit) {
    limb |= static_cast<uint64_t>(secret[(51 + bit) / 8] >> ((51 + bit) % 8) & 1) << bit;
  }
  for (size_t i = 0; i + sizeof limb <= kStackSize; ++i) {
    EXPECT_NE(std::memcmp(left + i, &limb, sizeof limb), 0) << "at byte " << i;
  }
#endif
}

}  // namespace
