// What the shell counts: connections, handshakes, deadlines, frames. One set for each thread that has sessions.
#ifndef GRADSTREAM_SERVER_LINK_SHELL_COUNTERS_H_
#define GRADSTREAM_SERVER_LINK_SHELL_COUNTERS_H_

#include <atomic>
#include <cstdint>

namespace gradstream {

// One thread counts and any thread reads, at the price of a plain number: the counting thread never waits for a reader.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter& other) : value_(other) {}
  Counter& operator=(const Counter& other) {
    value_.store(other, std::memory_order_relaxed);
    return *this;
  }
  operator uint64_t() const { return value_.load(std::memory_order_relaxed); }
  Counter& operator+=(uint64_t count) {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    return *this;
  }
  Counter& operator++() { return *this += 1; }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// Names are stable: they are the keys of the log line event=counters.
struct ShellCounters {
  struct Arrivals {  // connections before and at their handshake
    Counter connections_accepted;
    Counter connections_over_cap;
    Counter handshakes_over_cap;
    Counter handshakes_over_rate;
    Counter signatures_over_rate;
    Counter accept_failures;
    Counter greetings_replaced;
    Counter places_yielded;
    Counter sessions_renewed;
    Counter balancer_checks;
    Counter balancers_refused;
  };
  struct Handshakes {  // how handshakes ended
    Counter sessions_established;
    Counter plain_text_peers;
    Counter tls_version_peers;
    Counter unknown_identities;
    Counter revoked_identities;
    Counter inactive_identities;
    Counter expired_keys;
    Counter wrong_keys;
    Counter tls_other_faults;
  };
  struct Certificates {  // certificates that were not taken, and what unknown devices got
    Counter expired;
    Counter early;
    Counter foreign;
    Counter misused;
    Counter unnamed;
    Counter unusable;
    Counter devices_registered;
    Counter registrations_refused;
  };
  struct Deadlines {  // sessions that kept the server waiting
    Counter handshake;
    Counter hello;
    Counter frame;
    Counter write;
    Counter idle;
    Counter close;
  };
  struct Traffic {  // what sessions carried, and what ended them
    Counter frames_received;
    Counter frames_sent;
    Counter wire_bytes_received;
    Counter wire_bytes_sent;
    Counter malformed_frames;
    Counter large_records;
    Counter sessions_overloaded;
  };

  Arrivals arrivals;
  Handshakes handshakes;
  Certificates certificates;
  Deadlines deadlines;
  Traffic traffic;
  Counter store_failures;
  Counter fault_lines_dropped;  // of the log, beyond kFaultLines
  Counter claims_granted;
  Counter claims_refused;
  Counter keys_changed;
  Counter key_changes_refused;
};

// visit(key, help, counter), of a ShellCounters, constant or not.
template <typename Counters, typename Visit>
void visit_shell_counters(Counters& s, Visit&& visit) {
  visit("connections_accepted", "Connections to the devices' port.", s.arrivals.connections_accepted);
  visit("connections_over_cap", "Connections closed at connection_count_max.", s.arrivals.connections_over_cap);
  visit("handshakes_over_cap", "Half-open connections closed at handshake_count_max.", s.arrivals.handshakes_over_cap);
  visit("handshakes_over_rate", "Sessions refused because their device shakes hands too often.",
        s.arrivals.handshakes_over_rate);
  visit("signatures_over_rate", "Connections without a pre-shared key that had to wait for a signature.",
        s.arrivals.signatures_over_rate);
  visit("accept_failures", "Connections that the system could not give.", s.arrivals.accept_failures);
  visit("sessions_established", "TLS handshakes that succeeded.", s.handshakes.sessions_established);
  visit("plain_text_peers", "Peers that spoke no TLS.", s.handshakes.plain_text_peers);
  visit("tls_version_peers", "Peers without TLS 1.3.", s.handshakes.tls_version_peers);
  visit("unknown_identities", "Handshakes of names that nobody enrolled.", s.handshakes.unknown_identities);
  visit("revoked_identities", "Handshakes of revoked devices.", s.handshakes.revoked_identities);
  visit("inactive_identities", "Handshakes of pending or disabled devices.", s.handshakes.inactive_identities);
  visit("expired_keys", "Handshakes with a key whose rotation window is over.", s.handshakes.expired_keys);
  visit("wrong_keys", "Handshakes with another key than the enrolled one.", s.handshakes.wrong_keys);
  visit("large_records", "Sessions ended for a TLS record or ClientHello beyond 2,048 bytes.", s.traffic.large_records);
  visit("tls_other_faults", "Handshakes that failed otherwise.", s.handshakes.tls_other_faults);
  visit("certificates_expired", "Handshakes with a certificate whose time is over.", s.certificates.expired);
  visit("certificates_early", "Handshakes with a certificate whose time has not come.", s.certificates.early);
  visit("certificates_foreign", "Handshakes with a certificate of another CA.", s.certificates.foreign);
  visit("certificates_misused", "Handshakes with a certificate that is not for clients.", s.certificates.misused);
  visit("certificates_unnamed", "Handshakes with a certificate that names no device.", s.certificates.unnamed);
  visit("certificates_unusable", "Handshakes with a certificate that cannot be read or proven, or with none.",
        s.certificates.unusable);
  visit("devices_registered", "Devices that their certificate enrolled.", s.certificates.devices_registered);
  visit("registrations_refused", "Unknown devices with a certificate that were not enrolled.",
        s.certificates.registrations_refused);
  visit("malformed_frames", "Sessions ended for bytes that are no message.", s.traffic.malformed_frames);
  visit("deadline_handshake", "Sessions ended by handshake_deadline_ms.", s.deadlines.handshake);
  visit("deadline_hello", "Sessions ended for want of a Hello.", s.deadlines.hello);
  visit("deadline_frame", "Sessions ended by frame_deadline_ms.", s.deadlines.frame);
  visit("deadline_write", "Sessions ended by write_deadline_ms.", s.deadlines.write);
  visit("deadline_idle", "Sessions ended for silence.", s.deadlines.idle);
  visit("deadline_close", "Sessions cut by close_deadline_ms.", s.deadlines.close);
  visit("sessions_overloaded", "Sessions ended at queue_size_max.", s.traffic.sessions_overloaded);
  visit("frames_received", "Messages from devices.", s.traffic.frames_received);
  visit("frames_sent", "Messages to devices.", s.traffic.frames_sent);
  visit("wire_bytes_received", "Bytes from devices, with TLS.", s.traffic.wire_bytes_received);
  visit("wire_bytes_sent", "Bytes to devices, with TLS.", s.traffic.wire_bytes_sent);
  visit("store_failures", "Series of failures of the database.", s.store_failures);
  visit("fault_lines_dropped", "Log lines about bad handshakes and bytes that were not written.",
        s.fault_lines_dropped);
  visit("greetings_replaced", "Sessions without a Hello that a newer one of the same device ended.",
        s.arrivals.greetings_replaced);
  visit("places_yielded", "Waiting devices that were sent away at connection_count_max.", s.arrivals.places_yielded);
  visit("sessions_renewed", "Sessions that were old enough to begin anew.", s.arrivals.sessions_renewed);
  visit("balancer_checks", "Connections by which a balancer saw that the port answers.", s.arrivals.balancer_checks);
  visit("balancers_refused", "Balancers without their PROXY header, and others with one.",
        s.arrivals.balancers_refused);
  visit("claims_granted", "Claims that were granted, repetitions too.", s.claims_granted);
  visit("claims_refused", "Claims that were refused.", s.claims_refused);
  visit("keys_changed", "Keys that devices drew and that count, repetitions too.", s.keys_changed);
  visit("key_changes_refused", "Keys that devices drew and that were refused.", s.key_changes_refused);
}

// *total += part, counter by counter.
inline void add_counters(const ShellCounters& part, ShellCounters* total) {
  uint64_t values[sizeof(ShellCounters) / sizeof(Counter)] = {};
  size_t i = 0;
  visit_shell_counters(part, [&](const char*, const char*, const Counter& counter) { values[i++] = counter; });
  i = 0;
  visit_shell_counters(*total, [&](const char*, const char*, Counter& counter) { counter += values[i++]; });
}

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_LINK_SHELL_COUNTERS_H_
