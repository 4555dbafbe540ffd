// The identity file of a Linux client whose key changes, against a server's end of the agreement. Killed programs:
// tests/server/key_change_test.py.
#include "firmware/key_change_posix.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/link/tls.h"
#include "runtime/wire/frame.h"
#include "tests/support/fake_port.h"

namespace gradstream {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class KeyChangePosix : public testing::Test {
 protected:
  void SetUp() override {
    fake_port().has_random = true;
    ASSERT_EQ(tls_start(nullptr, 0), Status::kOk);
    std::string pattern = testing::TempDir() + "keys_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::memset(secret_, 11, sizeof secret_);
    ASSERT_EQ(find_public_key(secret_, public_), Status::kOk);
    Identity first;
    std::strcpy(first.name, "kitchen");
    std::memset(first.key, 1, sizeof first.key);
    ASSERT_EQ(store_identity(path(), first).text, "");
    start();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "a.id").string(); }
  std::string next_path() const { return path() + ".next"; }
  std::string text_of(const std::string& path) const {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // The process begins anew.
  FileFault start() {
    keeper_ = std::make_unique<IdentityKeeper>();
    return keeper_->open(path());
  }
  // A connection, of which the server knows the new key or not.
  void connect(bool knows_next) {
    keeper_->on_connecting();
    if (keeper_->has_next() && !knows_next) {
      ASSERT_TRUE(keeper_->on_refused());
    }
    keeper_->on_connected();
  }
  bool say(const KeyChange& change) {
    uint8_t frame[kFrameSizeMax];
    const Result<size_t> size = encode_key_change_of_server(change, frame);
    EXPECT_TRUE(size.ok());
    return keeper_->take({frame + kFramePrefixSize, size.value() - kFramePrefixSize});
  }
  void say_welcome() {
    const uint8_t welcome[] = {0x0a, 0};
    EXPECT_FALSE(keeper_->take(welcome));
  }
  KeyChange ask(uint32_t generation = 1) const {
    KeyChange ask;
    ask.generation = generation;
    ask.has_public = true;
    std::memcpy(ask.public_key, public_, sizeof public_);
    return ask;
  }
  // What the device offers now.
  KeyChange offer() {
    KeyChange offer;
    const std::span<const uint8_t> frame = keeper_->frame_due();
    if (!frame.empty()) {
      EXPECT_EQ(decode_key_change_of_device(frame.subspan(kFramePrefixSize), &offer), Status::kOk);
    }
    return offer;
  }
  // The server's answer to an offer of this generation; its key goes to *key.
  KeyChange answer_to(const KeyChange& offer, const uint8_t (&old_key)[32], uint8_t (*key)[32]) const {
    KeyProof proof;
    EXPECT_EQ(prove_as_server(KeyChangeTerms{"kitchen", offer.generation, old_key}, secret_, offer.public_key, &proof),
              Status::kOk);
    EXPECT_TRUE(is_same_confirm(proof.confirm_device, offer.confirm));
    std::memcpy(*key, proof.device_key, sizeof *key);
    KeyChange answer;
    answer.generation = offer.generation;
    answer.has_confirm = true;
    std::memcpy(answer.confirm, proof.confirm_server, sizeof answer.confirm);
    return answer;
  }
  Identity stored() const {
    Identity identity;
    ServerKey none;
    EXPECT_EQ(read_identity(path(), &identity, &none).text, "");
    return identity;
  }
  void expect_stored(const std::string& name, const uint8_t (&key)[32]) const {
    const Identity identity = stored();
    EXPECT_EQ(identity.name, name);
    EXPECT_EQ(std::memcmp(identity.key, key, sizeof key), 0);
    struct stat info = {};
    ASSERT_EQ(::stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
  }

  uint8_t secret_[32] = {};
  uint8_t public_[32] = {};
  fs::path folder_;
  std::unique_ptr<IdentityKeeper> keeper_;
  uint8_t first_key_[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
};

TEST_F(KeyChangePosix, WhatIsConfirmedTakesTheFilesPlace) {
  connect(false);
  say_welcome();
  EXPECT_TRUE(keeper_->frame_due().empty()) << "nobody has asked";
  EXPECT_TRUE(say(ask()));
  EXPECT_THAT(text_of(next_path()), HasSubstr("identity = kitchen~1\n")) << "it is stored before it is offered";
  const KeyChange offered = offer();
  EXPECT_EQ(offered.generation, 1U);
  EXPECT_TRUE(keeper_->frame_due().empty()) << "once";
  uint8_t key[32];
  const KeyChange answer = answer_to(offered, first_key_, &key);
  expect_stored("kitchen", first_key_);
  EXPECT_TRUE(say(answer));
  expect_stored("kitchen~1", key);
  EXPECT_FALSE(fs::exists(next_path()));
  connect(true);
  EXPECT_STREQ(keeper_->identity().name, "kitchen~1");
  say_welcome();
  EXPECT_TRUE(say(ask(2)));  // the next one mixes the new key
  const KeyChange second = offer();
  uint8_t second_key[32];
  EXPECT_TRUE(say(answer_to(second, key, &second_key)));
  expect_stored("kitchen~2", second_key);
}

TEST_F(KeyChangePosix, AfterARestartTheSameKeyIsOfferedAgain) {
  connect(false);
  EXPECT_TRUE(say(ask()));
  const KeyChange offered = offer();
  ASSERT_EQ(start().text, "");
  keeper_->on_connecting();
  EXPECT_STREQ(keeper_->identity().name, "kitchen~1") << "the new key first";
  EXPECT_TRUE(keeper_->on_refused());
  EXPECT_STREQ(keeper_->identity().name, "kitchen");
  EXPECT_FALSE(keeper_->on_refused()) << "two handshakes a connection";
  keeper_->on_connected();
  EXPECT_TRUE(keeper_->frame_due().empty()) << "not before the Hello";
  say_welcome();
  const KeyChange again = offer();
  EXPECT_EQ(std::memcmp(again.public_key, offered.public_key, sizeof offered.public_key), 0);
  EXPECT_EQ(std::memcmp(again.confirm, offered.confirm, sizeof offered.confirm), 0);
  EXPECT_TRUE(say(ask())) << "the server asks as well";
  EXPECT_TRUE(keeper_->frame_due().empty()) << "it is offered already";
  uint8_t key[32];
  EXPECT_TRUE(say(answer_to(again, first_key_, &key)));
  expect_stored("kitchen~1", key);
}

TEST_F(KeyChangePosix, AHandshakeByTheNewKeyIsAConfirmToo) {
  connect(false);
  EXPECT_TRUE(say(ask()));
  uint8_t key[32];
  (void)answer_to(offer(), first_key_, &key);  // and its answer is lost
  connect(true);
  expect_stored("kitchen~1", key);
  EXPECT_FALSE(fs::exists(next_path()));
  say_welcome();
  EXPECT_TRUE(keeper_->frame_due().empty());
}

TEST_F(KeyChangePosix, WhatIsRefusedIsErased) {
  connect(false);
  EXPECT_TRUE(say(ask()));
  (void)offer();
  KeyChange refusal;
  refusal.generation = 2;
  EXPECT_TRUE(say(refusal));
  EXPECT_TRUE(keeper_->has_next()) << "of another generation";
  refusal.generation = 1;
  EXPECT_TRUE(say(refusal));
  EXPECT_FALSE(keeper_->has_next());
  EXPECT_FALSE(fs::exists(next_path()));
  expect_stored("kitchen", first_key_);
  EXPECT_TRUE(say(ask()));
  EXPECT_TRUE(offer().has_public) << "and the next request is a new one";
}

TEST_F(KeyChangePosix, AnAnswerThatDoesNotHoldChangesNothing) {
  connect(false);
  EXPECT_TRUE(say(ask()));
  uint8_t key[32];
  const KeyChange good = answer_to(offer(), first_key_, &key);
  for (size_t bit = 0; bit < 8 * kConfirmSize; ++bit) {
    KeyChange answer = good;
    answer.confirm[bit / 8] = static_cast<uint8_t>(answer.confirm[bit / 8] ^ (1U << bit % 8));
    EXPECT_TRUE(say(answer));
    EXPECT_TRUE(keeper_->has_next());
  }
  KeyChange other = good;
  other.generation = 2;
  EXPECT_TRUE(say(other));
  expect_stored("kitchen", first_key_);
  EXPECT_TRUE(say(good));
  expect_stored("kitchen~1", key);
}

TEST_F(KeyChangePosix, AnotherGenerationOrNoKeyIsNotAnswered) {
  connect(false);
  for (const uint32_t generation : {2U, UINT32_MAX}) {
    EXPECT_TRUE(say(ask(generation)));
    EXPECT_TRUE(keeper_->frame_due().empty());
  }
  KeyChange zero = ask();
  std::ranges::fill(zero.public_key, uint8_t{0});
  zero.public_key[0] = 1;  // of small order
  EXPECT_TRUE(say(zero));
  EXPECT_TRUE(keeper_->frame_due().empty());
  EXPECT_FALSE(fs::exists(next_path()));
}

// The operator asked again after the first request was over: the server has another key for it.
TEST_F(KeyChangePosix, AnotherRequestDrawsAnotherKey) {
  connect(false);
  EXPECT_TRUE(say(ask()));
  const KeyChange first = offer();
  std::memset(secret_, 12, sizeof secret_);
  ASSERT_EQ(find_public_key(secret_, public_), Status::kOk);
  EXPECT_TRUE(say(ask()));
  const KeyChange second = offer();
  EXPECT_NE(std::memcmp(first.public_key, second.public_key, sizeof first.public_key), 0);
  uint8_t key[32];
  EXPECT_TRUE(say(answer_to(second, first_key_, &key)));
  expect_stored("kitchen~1", key);
}

TEST_F(KeyChangePosix, WhatAChangeHasLeftBehindGoes) {
  connect(false);
  EXPECT_TRUE(say(ask()));
  const std::string drawn = text_of(next_path());
  uint8_t key[32];
  EXPECT_TRUE(say(answer_to(offer(), first_key_, &key)));
  std::ofstream(next_path()) << drawn;  // killed before it was erased
  ASSERT_EQ(start().text, "");
  EXPECT_FALSE(keeper_->has_next());
  EXPECT_FALSE(fs::exists(next_path()));
  expect_stored("kitchen~1", key);
}

TEST_F(KeyChangePosix, AFileThatIsNoneIsNamedAndStays) {
  std::ofstream(next_path()) << "key = 12\n";
  EXPECT_THAT(start().text, HasSubstr(next_path()));
  EXPECT_TRUE(fs::exists(next_path()));
}

// The link stays, and leads to the new key.
TEST_F(KeyChangePosix, AFileBehindALinkIsReplacedWhereItIs) {
  fs::create_directory(folder_ / "links");
  fs::create_symlink(path(), folder_ / "links" / "a.id");
  keeper_ = std::make_unique<IdentityKeeper>();
  ASSERT_EQ(keeper_->open((folder_ / "links" / "a.id").string()).text, "");
  connect(false);
  EXPECT_TRUE(say(ask()));
  uint8_t key[32];
  EXPECT_TRUE(say(answer_to(offer(), first_key_, &key)));
  expect_stored("kitchen~1", key);
  EXPECT_TRUE(fs::is_symlink(folder_ / "links" / "a.id"));
}

TEST_F(KeyChangePosix, NoKeyIsDrawnWithoutAPlaceForIt) {
  EXPECT_TRUE(can_keep_identity(path()));
  EXPECT_FALSE(can_keep_identity(path() + ".none"));
  EXPECT_FALSE(can_keep_identity("/dev/null")) << "no file that another one can take the place of";
  ClientMainOptions options;
  IdentityKeeper none;
  EXPECT_EQ(keep_identity("", &none, &options), kExitOk) << "a certificate stands for it";
  EXPECT_EQ(options.keys, nullptr);
  EXPECT_EQ(keep_identity(path(), &none, &options), kExitOk);
  EXPECT_EQ(options.keys, &none);
}

TEST(IdentityName, IsTheNameAndItsGeneration) {
  for (const auto& [text, name, generation] : {std::tuple("kitchen", "kitchen", 0U),
                                               {"kitchen~1", "kitchen", 1U},
                                               {"a~b~4294967295", "a~b", 4294967295U},
                                               {"a~4294967296", "a~4294967296", 0U},
                                               {"a~01", "a~01", 0U},
                                               {"a~", "a~", 0U},
                                               {"~1", "~1", 0U},
                                               {"a~1x", "a~1x", 0U}}) {
    const IdentityName split = split_identity_name(text);
    EXPECT_EQ(split.name, name);
    EXPECT_EQ(split.generation, generation);
  }
}

}  // namespace
}  // namespace gradstream
