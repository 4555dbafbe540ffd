#include "bench/load.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <utility>

#include <arpa/inet.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/load_device.h"
#include "bench/load_mqtt.h"
#include "bench/load_nats.h"

namespace gradstream {
namespace {

// Handshakes in progress. Reason: below the server's own cap, and enough to keep it busy.
constexpr uint32_t kConnectingMax = 48;
constexpr double kConnectSecondsMax = 600;
// An exchange takes milliseconds; what takes longer is an error and not a latency.
constexpr double kExchangeSecondsMax = 30;
constexpr double kTurnSeconds = 0.002;  // between two looks at all devices

TlsKeyExchange exchange_of(const LoadArguments& arguments) {
  return arguments.exchange == "psk_ke" ? TlsKeyExchange::kPsk : TlsKeyExchange::kPskEphemeral;
}

}  // namespace

Load::Load(const LoadArguments& arguments)
    : arguments_(arguments), poll_(epoll_create1(EPOLL_CLOEXEC)), random_(arguments.seed) {}

bool Load::read_servers() {
  std::vector<std::string> servers = arguments_.servers;
  if (servers.empty()) {
    servers.push_back("127.0.0.1:" + std::to_string(arguments_.port));
  }
  for (const std::string& server : servers) {
    const size_t colon = std::min(server.find(':'), server.size());
    const std::string port = server.substr(std::min(colon + 1, server.size()));
    const unsigned long number = std::strtoul(port.c_str(), nullptr, 10);
    sockaddr_in& address = addresses_.emplace_back();
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(number));
    if (number == 0 || number > UINT16_MAX ||
        inet_pton(AF_INET, server.substr(0, colon).c_str(), &address.sin_addr) != 1) {
      std::fprintf(stderr, "load: error: --server %s: expected an IPv4 address and a port, such as 10.0.0.1:7800\n",
                   server.c_str());
      return false;
    }
  }
  return true;
}

bool Load::open_record() {
  if (arguments_.record.empty() || record_.open(arguments_.record)) {
    return true;
  }
  std::fprintf(stderr, "load: error: --record %s: %s\n", arguments_.record.c_str(), std::strerror(errno));
  return false;
}

void Load::dial(LoadPeer& peer) { peer.connect(addresses_[next_address_++ % addresses_.size()], poll_); }

bool Load::read_identities() {
  std::ifstream file(arguments_.identities);
  std::string line;
  while (identities_.size() < arguments_.devices && std::getline(file, line)) {
    const size_t comma = line.find(',');
    const std::string text =
        "identity = " + line.substr(0, comma) + "\nkey = " + (comma == line.npos ? "" : line.substr(comma + 1)) + "\n";
    uint32_t at = 0;
    identities_.emplace_back();
    if (parse_identity(text, &identities_.back(), &at) != Status::kOk) {
      std::fprintf(stderr, "load: error: %s:%zu: expected NAME,KEY with 64 hexadecimal digits\n",
                   arguments_.identities.c_str(), identities_.size());
      return false;
    }
  }
  if (identities_.size() < arguments_.devices) {
    std::fprintf(stderr, "load: error: %s holds %zu identities of %u\n", arguments_.identities.c_str(),
                 identities_.size(), arguments_.devices);
    return false;
  }
  return true;
}

bool Load::read_certificates() {
  if (arguments_.certificates.empty()) {
    return true;
  }
  const auto read = [this](const char* name) {
    std::ifstream file(arguments_.certificates + "/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto with_end = [](const std::string& text) { return std::span<const char>(text.c_str(), text.size() + 1); };
  const std::string authority = read("ca.pem"), key = read("device.key"), all = read("devices.pem");
  const std::string end_line = "-----END CERTIFICATE-----\n";
  for (size_t begin = 0; credentials_.size() < identities_.size();) {
    const size_t end = std::min(all.find(end_line, begin), all.size());
    const std::string one = all.substr(begin, end - begin + end_line.size());
    credentials_.push_back(std::make_unique<Credentials>());
    const CredentialProblem problem =
        credentials_.back()->parse({with_end(authority), with_end(one), with_end(key)}, CertificateRole::kDevice);
    if (problem.text != nullptr) {
      std::fprintf(stderr, "load: error: %s: certificate %zu or its files: %s\n", arguments_.certificates.c_str(),
                   credentials_.size(), problem.text);
      return false;
    }
    begin = std::min(end + end_line.size(), all.size());
  }
  return true;
}

bool Load::connect() {
  const TlsKeyExchange exchange = exchange_of(arguments_);
  for (const Identity& identity : identities_) {
    if (arguments_.is_mqtt) {
      peers_.push_back(std::make_unique<MqttPeer>(identity, exchange, arguments_.is_storm, statistics_, random_));
    } else if (arguments_.is_nats) {
      peers_.push_back(std::make_unique<NatsPeer>(identity, exchange, arguments_.is_storm, statistics_, random_));
    } else {
      auto peer = std::make_unique<DevicePeer>(identity, exchange, arguments_.is_storm, statistics_, random_);
      peer->record_in(arguments_.record.empty() ? nullptr : &record_);
      peers_.push_back(std::move(peer));
    }
    peers_.back()->use(credentials_.empty() ? nullptr : credentials_[peers_.size() - 1].get());
  }
  const double begin = load_now_s();
  size_t next = 0;
  std::vector<LoadPeer*> under_way;
  while ((next < peers_.size() || !under_way.empty()) && load_now_s() - begin < kConnectSecondsMax) {
    std::erase_if(under_way, [](const LoadPeer* peer) {
      return peer->state() == LoadPeerState::kIdle || peer->state() == LoadPeerState::kGone;
    });
    while (next < peers_.size() && under_way.size() < kConnectingMax) {
      under_way.push_back(peers_[next++].get());
      dial(*under_way.back());
    }
    turn(0.01);
  }
  std::printf("event=connected devices=%zu lost=%lu seconds=%.3f handshake_p50_ms=%.2f handshake_p99_ms=%.2f%s%s%s\n",
              peers_.size() - statistics_.lost, static_cast<unsigned long>(statistics_.lost), load_now_s() - begin,
              1e3 * quantile(statistics_.handshake_s, 0.5), 1e3 * quantile(statistics_.handshake_s, 0.99),
              statistics_.last_fault.empty() ? "" : " fault=\"", statistics_.last_fault.c_str(),
              statistics_.last_fault.empty() ? "" : "\"");
  std::fflush(stdout);
  return statistics_.lost == 0 && under_way.empty();
}

void Load::run_return(double seconds) {
  statistics_ = {};
  std::printf("event=waiting\n");
  std::fflush(stdout);
  const double begin = load_now_s();
  size_t back = 0;
  double now = begin;
  for (; back < peers_.size() && now - begin < seconds; now = load_now_s()) {
    back = 0;
    for (const auto& peer : peers_) {
      peer->give_up_late(now);
      if (peer->state() == LoadPeerState::kGone && peer->due_s() <= now) {
        dial(*peer);
      }
      back += peer->state() == LoadPeerState::kIdle && peer->session_count() > 1 ? 1 : 0;
    }
    turn(kTurnSeconds);
  }
  std::printf(
      "event=returned back=%zu at_s=%.3f dials=%lu unreached=%lu lost=%lu timeouts=%lu handshake_p50_ms=%.0f "
      "handshake_p99_ms=%.0f fault=\"%s\"\n",
      back, now, static_cast<unsigned long>(statistics_.dials), static_cast<unsigned long>(statistics_.unreached),
      static_cast<unsigned long>(statistics_.lost), static_cast<unsigned long>(statistics_.timeouts),
      1e3 * quantile(statistics_.handshake_s, 0.5), 1e3 * quantile(statistics_.handshake_s, 0.99),
      statistics_.last_fault.c_str());
  std::fflush(stdout);
}

void Load::run_days(double seconds, double share) {
  live(share, [seconds](double past) { return past > seconds; });
}

void Load::run_until_told(double share) {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  live(share, [&input](double) { return ::poll(&input, 1, 0) != 0; });
}

template <typename IsOver>
void Load::live(double share, const IsOver& has_ended) {
  statistics_ = {};
  const double begin = load_now_s();
  double now = begin;
  std::vector<bool> leaves(peers_.size());
  std::vector<uint64_t> exchanges(peers_.size());
  for (size_t i = 0; i < peers_.size(); ++i) {
    exchanges[i] = peers_[i]->exchange_count();
  }
  bool is_ending = false;
  for (bool is_over = false; !is_over; now = load_now_s()) {
    is_ending = is_ending || has_ended(now - begin);
    size_t connecting = 0;
    is_over = is_ending;
    for (const auto& peer : peers_) {
      peer->give_up_late(now);
      connecting += peer->state() == LoadPeerState::kConnecting || peer->state() == LoadPeerState::kGreeting ? 1 : 0;
      is_over = is_over && (peer->state() == LoadPeerState::kIdle || peer->state() == LoadPeerState::kGone);
    }
    for (size_t i = 0; i < peers_.size() && !is_ending; ++i) {
      LoadPeer& peer = *peers_[i];
      if (peer.exchange_count() != exchanges[i]) {
        exchanges[i] = peer.exchange_count();
        leaves[i] = std::bernoulli_distribution(share)(random_);
      }
      if (peer.state() == LoadPeerState::kIdle && leaves[i]) {
        leaves[i] = false;
        peer.leave();
      } else if (peer.due_s() > now) {
        continue;
      } else if (peer.state() == LoadPeerState::kIdle) {
        peer.begin_exchange();
      } else if (peer.state() == LoadPeerState::kGone && connecting < kConnectingMax) {
        ++connecting;
        dial(peer);
      }
    }
    turn(kTurnSeconds);
  }
  for (const auto& peer : peers_) {
    peer->leave();
  }
  print_load(now - begin);
}

void Load::run_drain(double seconds) {
  const double begin = load_now_s();
  size_t pending = peers_.size();
  for (double now = begin; pending > 0 && now - begin < seconds; now = load_now_s()) {
    pending = 0;
    size_t connecting = 0;
    for (const auto& peer : peers_) {
      connecting += peer->state() == LoadPeerState::kConnecting || peer->state() == LoadPeerState::kGreeting ? 1 : 0;
    }
    for (const auto& peer : peers_) {
      peer->give_up_late(now);
      const bool is_idle = peer->state() == LoadPeerState::kIdle;
      if (!peer->is_pending()) {
        is_idle ? peer->leave() : void();
      } else if (is_idle && peer->due_s() <= now) {
        peer->begin_exchange();
      } else if (peer->state() == LoadPeerState::kGone && peer->due_s() <= now && connecting < kConnectingMax) {
        ++connecting;
        dial(*peer);
      }
      pending += peer->is_pending() ? 1 : 0;
    }
    turn(kTurnSeconds);
  }
  for (const auto& peer : peers_) {
    peer->leave();
  }
  std::printf("event=drained seconds=%.3f pending=%zu recorded=%d\n", load_now_s() - begin, pending,
              record_.is_broken() ? 0 : 1);
  std::fflush(stdout);
}

void Load::run_closed(double seconds, size_t count) {
  run(seconds, [&](std::deque<LoadPeer*>& idle, size_t busy) {
    while (busy < count && !idle.empty()) {
      start(idle);
      ++busy;
    }
  });
}

void Load::run_open(double seconds, double rate) {
  std::exponential_distribution<double> gap(rate);
  double next = load_now_s() + gap(random_);
  run(seconds, [&](std::deque<LoadPeer*>& idle, size_t) {
    const double now = load_now_s();
    while (next <= now) {
      idle.empty() ? void(++behind_) : start(idle);
      next += gap(random_);
    }
  });
}

double Load::quantile(std::vector<double>& values, double q) {
  if (values.empty()) {
    return 0;
  }
  const auto at = values.begin() + static_cast<ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void Load::start(std::deque<LoadPeer*>& idle) {
  LoadPeer* const peer = idle.front();
  idle.pop_front();
  peer->begin_exchange();
  busy_.push_back(peer);
}

void Load::turn(double seconds) {
  epoll_event events[256];
  const int count = epoll_wait(poll_, events, static_cast<int>(std::size(events)), static_cast<int>(1e3 * seconds));
  for (int i = 0; i < count; ++i) {
    static_cast<LoadPeer*>(events[i].data.ptr)->on_event();
  }
}

template <typename Feed>
void Load::run(double seconds, const Feed& feed) {
  statistics_ = {};
  behind_ = 0;
  std::deque<LoadPeer*> idle;
  for (const auto& peer : peers_) {
    if (peer->state() == LoadPeerState::kIdle) {
      idle.push_back(peer.get());
    }
  }
  const double begin = load_now_s();
  double now = begin;
  for (bool is_ending = false; !is_ending || !busy_.empty(); now = load_now_s()) {
    is_ending = now - begin > seconds;
    std::erase_if(busy_, [&](LoadPeer* peer) {
      if (peer->state() == LoadPeerState::kIdle) {
        idle.push_back(peer);
      }
      return peer->state() != LoadPeerState::kBusy || now - peer->begin_s() > kExchangeSecondsMax;
    });
    if (!is_ending) {
      feed(idle, busy_.size());
    }
    turn(is_ending ? 0.01 : 0.001);
  }
  print_load(now - begin);
}

void Load::print_load(double seconds) {
  std::printf(
      "event=load seconds=%.3f exchanges=%lu waits=%lu refused=%lu lost=%lu dials=%lu behind=%lu "
      "latency_p50_ms=%.3f latency_p99_ms=%.3f fault=\"%s\"\n",
      seconds, static_cast<unsigned long>(statistics_.exchanges), static_cast<unsigned long>(statistics_.waits),
      static_cast<unsigned long>(statistics_.refused), static_cast<unsigned long>(statistics_.lost),
      static_cast<unsigned long>(statistics_.dials), static_cast<unsigned long>(behind_),
      1e3 * quantile(statistics_.latency_s, 0.5), 1e3 * quantile(statistics_.latency_s, 0.99),
      statistics_.last_fault.c_str());
  std::fflush(stdout);
}

}  // namespace gradstream
