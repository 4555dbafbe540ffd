// gradstream-engine-bench: what an engine on PostgreSQL costs, beside a bare loop of libpq with the same statements.
//
//   front "engine"   PostgresEngine: from commit() to its reply
//   front "bare"     PQexecPrepared() of the engine's own statement: its parameters are made before the clock starts
//
// Both commit to one primary with a synchronous standby, which the program starts in the current folder with
// PostgreSQL's own settings. They take turns, a tenth of a second each. Each has devices of its own, and one batch
// under way.
//
// An update is a task and a verdict. A batch of N is the tasks of N devices, or the N verdicts on them with their sum.
// Devices come in an order that is drawn once, so that their rows lie on all pages of the table.
//
// A round of both prints a line for each, for tools/bench_engine.py:
//   turn: batch=N side=engine|bare updates= seconds= p50_ms= empty_ms= primary_us= standby_us= front_us= others=
// seconds: of all commits together. p50_ms: of those with verdicts. empty_ms: the median of batches without a device,
// by the engine, between the slices. The processor time of both servers and of this process is for each update. others:
// the part of the machine's processors that other programs had meanwhile.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <libpq-fe.h>
#include <unistd.h>

#include "host/end_signals.h"
#include "host/output_end.h"
#include "host/standard_files.h"
#include "runtime/base/random.h"
#include "server/postgresql/engine_postgres.h"
#include "server/postgresql/engine_schema.h"
#include "tests/support/postgres_cluster.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "gradstream-engine-bench: %s:%d: assertion failed\n", file, line);
  std::abort();
}

namespace {

constexpr uint32_t kRun = 1;
constexpr uint32_t kDeviceCount = 16'384;  // of each front
constexpr uint32_t kBatchMax = 512;        // devices; of these the table is filled
constexpr size_t kSumSize = 1'600;         // bytes: a model of 200 numbers, 8 bytes each
constexpr uint32_t kEmptyCount = 20;       // commits without a device, between the slices
constexpr double kSliceS = 0.1;            // of one front, until the other one goes on
constexpr uint32_t kCallMs = 10'000;       // of one call of either front
constexpr uint32_t kEndGraceMs = 5'000;    // a commit under way and the end of both servers
constexpr uint32_t kOrderSeed = 1;

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

double processor_seconds_here() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.empty() ? 0 : *middle;
}

// ---- Processor time of others ----

struct ProcessTimes {
  pid_t parent = 0;
  double ended_s = 0;  // of its children that have ended
};

double ticks_in_seconds(double ticks) { return ticks / static_cast<double>(sysconf(_SC_CLK_TCK)); }

// From /proc/PID/stat; the name, which may hold anything, ends with the last parenthesis.
ProcessTimes read_times(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string state, skipped;
  ProcessTimes times;
  words >> state >> times.parent;
  for (int field = 5; field <= 15; ++field) {  // up to stime, as proc(5) numbers them
    words >> skipped;
  }
  double user_ticks = 0;
  double system_ticks = 0;
  words >> user_ticks >> system_ticks;
  times.ended_s = ticks_in_seconds(user_ticks + system_ticks);
  return times;
}

// Of a server's first process and of all its children, those that have ended included.
double server_seconds(pid_t first) {
  double seconds = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) {
      continue;
    }
    const ProcessTimes times = read_times(entry.path());
    if (pid == first || times.parent == first) {
      double nanoseconds = 0;
      std::ifstream(entry.path() / "schedstat") >> nanoseconds;
      seconds += 1e-9 * nanoseconds + (pid == first ? times.ended_s : 0);
    }
  }
  return seconds;
}

// Of all processors together, and what a hypervisor has taken from them.
double machine_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  std::array<double, 8> ticks = {};  // user, nice, system, idle, iowait, irq, softirq, steal
  file >> name;
  for (double& one : ticks) {
    file >> one;
  }
  return ticks_in_seconds(ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7]);
}

struct Meter {
  explicit Meter(const PostgresCluster& of) : cluster(of) { read(); }
  void read() {
    at = SteadyClock::now();
    primary_s = server_seconds(cluster.primary_pid());
    standby_s = server_seconds(cluster.standby_pid());
    here_s = processor_seconds_here();
    machine_s = machine_seconds();
  }
  const PostgresCluster& cluster;
  SteadyClock::time_point at;
  double primary_s = 0, standby_s = 0, here_s = 0, machine_s = 0;
};

// What was spent in one front's slices of a round.
struct Turn {
  uint64_t updates = 0;
  double elapsed_s = 0, primary_s = 0, standby_s = 0, here_s = 0, machine_s = 0;
  void add(const Meter& before, const Meter& after) {
    elapsed_s += std::chrono::duration<double>(after.at - before.at).count();
    primary_s += after.primary_s - before.primary_s;
    standby_s += after.standby_s - before.standby_s;
    here_s += after.here_s - before.here_s;
    machine_s += after.machine_s - before.machine_s;
  }
};

// ---- What commits ----

struct Commit {
  EngineReply reply;
  double seconds = 0;      // that it took
  double processor_s = 0;  // of this process meanwhile
};

class Committer {
 public:
  virtual ~Committer() = default;
  virtual EngineReply join() = 0;
  virtual Commit commit(const EngineBatch& batch) = 0;
  virtual std::string trouble() const = 0;
};

PostgresOptions options_of(const PostgresCluster& cluster, const std::string& node) {
  PostgresOptions options;
  options.server = cluster.primary() + " options='-c statement_timeout=" + std::to_string(kCallMs) + "'";
  options.run = kRun;
  options.node = node;
  options.deadline_ms = kCallMs;
  return options;
}

class EngineCommitter final : public Committer {
 public:
  explicit EngineCommitter(const PostgresCluster& cluster) : engine_(io_, options_of(cluster, "engine")) {}
  EngineReply join() override { return wait(engine_.join()); }
  Commit commit(const EngineBatch& batch) override {
    Commit done;
    const double processor_s = processor_seconds_here();
    const auto begin = SteadyClock::now();
    done.reply = wait(engine_.commit(batch));
    done.seconds = seconds_since(begin);
    done.processor_s = processor_seconds_here() - processor_s;
    return done;
  }
  bool publish(uint32_t version) {
    const EngineReply lease = wait(engine_.take_lease());
    if (lease.outcome != EngineOutcome::kCommitted ||
        wait(engine_.seal(lease.lease.term, version - 1)).outcome != EngineOutcome::kCommitted) {
      return false;
    }
    uint64_t sum_count = 0;
    EngineReply part;
    for (SumPlace after; !(part = wait(engine_.read_sums(version - 1, after))).sums.empty();) {
      sum_count += part.sums.size();
      after = part.sums.back().place;
    }
    return wait(engine_.publish(lease.lease.term, sum_count, {version, {1}})).outcome == EngineOutcome::kCommitted;
  }
  std::string trouble() const override { return engine_.trouble(); }

 private:
  // The engine answers each call in its deadline.
  EngineReply wait(EngineTicket ticket) {
    for (;;) {
      for (EngineReply& reply : engine_.take_replies()) {
        if (reply.ticket == ticket) {
          return std::move(reply);
        }
      }
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(kCallMs));
    }
  }

  asio::io_context io_;
  PostgresEngine engine_;
};

class BareCommitter final : public Committer {
 public:
  explicit BareCommitter(const PostgresCluster& cluster)
      : options_(options_of(cluster, "bare")), connection_(PQconnectdb(options_.server.c_str()), &PQfinish) {
    for (const EngineStatement& one : engine_statements()) {
      PQclear(PQprepare(connection_.get(), one.name, one.text, 0, nullptr));  // what fails is told by its call
    }
  }
  EngineReply join() override { return call(EngineVerb::kJoin, parameters_of_node(options_)).reply; }
  Commit commit(const EngineBatch& batch) override {
    return call(EngineVerb::kCommit, parameters_of_batch(options_, batch));
  }
  std::string trouble() const override { return PQerrorMessage(connection_.get()); }

 private:
  Commit call(EngineVerb verb, const PgParameters& parameters) {
    const char* const name = engine_statements()[static_cast<size_t>(verb)].name;
    const std::vector<const char*> values = parameters.pointers();
    const std::vector<int> sizes = parameters.sizes();
    const std::vector<int> formats = parameters.formats();
    Commit done;
    const double processor_s = processor_seconds_here();
    const auto begin = SteadyClock::now();
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexecPrepared(connection_.get(), name, parameters.count(), values.data(), sizes.data(), formats.data(), 1),
        &PQclear);
    done.seconds = seconds_since(begin);
    done.processor_s = processor_seconds_here() - processor_s;
    PgAnswer answer;
    answer.table = PQresultStatus(result.get()) == PGRES_TUPLES_OK ? result.get() : nullptr;
    read_engine_reply(verb, answer, {}, &done.reply);
    return done;
  }

  PostgresOptions options_;
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

// ---- One front ----

class BenchFront {
 public:
  BenchFront(std::string name, Committer& committer, uint32_t first_device)
      : name_(std::move(name)), committer_(committer), rows_(kDeviceCount), first_device_(first_device) {
    order_.resize(kDeviceCount);
    RandomKey key;
    key.seed = kOrderSeed;
    choose(key, kDeviceCount, kDeviceCount, order_.data());
  }
  const std::string& name() const { return name_; }
  // Of the last commits, since clear().
  const std::vector<double>& verdict_seconds() const { return verdict_seconds_; }
  double seconds() const { return seconds_; }
  double processor_s() const { return processor_s_; }
  void clear() {
    verdict_seconds_.clear();
    seconds_ = processor_s_ = 0;
  }
  // False: the reason is printed.
  bool join() { return take(committer_.join(), "join"); }
  void follow_version(uint32_t version) { row_.open_version = version; }
  // Updates of the next devices, as two commits.
  bool update(uint32_t batch_size) {
    const uint32_t begin = next_;
    next_ = (next_ + batch_size) % kDeviceCount;
    return commit(tasks(begin, batch_size)) && commit(verdicts(begin, batch_size));
  }
  bool commit_nothing() { return commit({}); }
  double last_seconds() const { return last_seconds_; }

 private:
  std::vector<uint32_t> places(uint32_t begin, uint32_t size) const {
    std::vector<uint32_t> chosen;
    for (uint32_t i = 0; i < size; ++i) {
      chosen.push_back(order_[(begin + i) % kDeviceCount]);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }
  EngineBatch tasks(uint32_t begin, uint32_t size) {
    EngineBatch batch;
    for (const uint32_t place : places(begin, size)) {
      DeviceRow& row = rows_[place];
      RowChange& change = batch.changes.emplace_back();
      change = {first_device_ + place, row.task.sequence, row.task.is_open, {}};
      row.task.sequence += 1;
      row.task.version = row_.open_version;
      row.task.steps = 1;
      row.task.is_open = true;
      change.row = row;
    }
    return batch;
  }
  EngineBatch verdicts(uint32_t begin, uint32_t size) {
    EngineBatch batch;
    for (const uint32_t place : places(begin, size)) {
      DeviceRow& row = rows_[place];
      RowChange& change = batch.changes.emplace_back();
      change = {first_device_ + place, row.task.sequence, true, {}};
      row.task.is_open = false;
      row.judged = {row.task.sequence, gs_Verdict_VERDICT_FOLDED, gs_Reason_REASON_NONE, row_.open_version + 1, 1, 0};
      row.accepted = row.judged;
      row.answered_version = row_.open_version;
      row.tally.rounds_joined += 1;
      row.tally.updates_folded += 1;
      change.row = row;
    }
    batch.on_time_count = size;
    batch.sum.resize(kSumSize);
    for (size_t i = 0; i < kSumSize; ++i) {
      batch.sum[i] = static_cast<uint8_t>(row_.batch + 37 * i);
    }
    return batch;
  }
  bool commit(EngineBatch batch) {
    batch.epoch = row_.epoch;
    batch.open_version = row_.open_version;
    batch.number = row_.batch + 1;
    const Commit done = committer_.commit(batch);
    last_seconds_ = done.seconds;
    if (!batch.changes.empty()) {
      seconds_ += done.seconds;
      processor_s_ += done.processor_s;
    }
    if (batch.on_time_count > 0) {
      verdict_seconds_.push_back(done.seconds);
    }
    return take(done.reply, "commit");
  }
  bool take(const EngineReply& reply, const char* what) {
    if (reply.outcome != EngineOutcome::kCommitted) {
      std::fprintf(stderr, "gradstream-engine-bench: error: front %s: %s has outcome %u: %s\n", name_.c_str(), what,
                   static_cast<unsigned>(reply.outcome), committer_.trouble().c_str());
      return false;
    }
    row_ = reply.front;
    return true;
  }

  const std::string name_;
  Committer& committer_;
  std::vector<DeviceRow> rows_;
  std::vector<uint32_t> order_;
  const uint32_t first_device_;
  uint32_t next_ = 0;  // place in order_
  FrontRow row_;
  std::vector<double> verdict_seconds_;
  double seconds_ = 0, processor_s_ = 0, last_seconds_ = 0;
};

// ---- The bench ----

struct BenchOptions {
  std::vector<uint32_t> batches = {8, 64, 256};
  uint32_t round_count = 5;
  double turn_s = 1;
};

class EngineBench {
 public:
  EngineBench(const BenchOptions& options, const PostgresCluster& cluster)
      : options_(options),
        cluster_(cluster),
        engine_(cluster),
        bare_(cluster),
        fronts_{BenchFront("engine", engine_, 0), BenchFront("bare", bare_, kDeviceCount)} {}

  bool run() {
    for (BenchFront& front : fronts_) {
      if (!front.join() || !fill(front)) {
        return false;
      }
    }
    for (uint32_t round = 0; round < options_.round_count; ++round) {
      for (const uint32_t batch : options_.batches) {
        if (!play(batch, round % 2 == 1)) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  // A row for each device, so that no turn makes the first ones.
  static bool fill(BenchFront& front) {
    for (uint32_t done = 0; done < kDeviceCount; done += kBatchMax) {
      if (end_signal() != 0 || !front.update(kBatchMax)) {
        return false;
      }
    }
    return true;
  }

  // The sums of the version before are dropped, as they are in a run.
  bool publish() {
    ++version_;
    batch_count_ = 0;
    if (!engine_.publish(version_)) {
      std::fprintf(stderr, "gradstream-engine-bench: error: version %u is not published: %s\n", version_,
                   engine_.trouble().c_str());
      return false;
    }
    for (BenchFront& front : fronts_) {
      front.follow_version(version_);
    }
    return true;
  }

  // Both fronts' turns with one batch, in slices, so that a slow moment of the machine is in both.
  bool play(uint32_t batch, bool is_bare_first) {
    if (!publish()) {
      return false;
    }
    std::array<Turn, 2> turns;
    std::vector<double> empty_seconds;
    for (BenchFront& front : fronts_) {
      front.clear();
    }
    while (turns[0].elapsed_s < options_.turn_s || turns[1].elapsed_s < options_.turn_s) {
      for (size_t place = 0; place < turns.size(); ++place) {
        const size_t side = is_bare_first ? 1 - place : place;
        if (!slice(fronts_[side], batch, &turns[side])) {
          return false;
        }
      }
      if (!measure_empty(&empty_seconds)) {
        return false;
      }
    }
    const double empty_s = median_of(std::move(empty_seconds));
    print(fronts_[0], batch, turns[0], empty_s);
    print(fronts_[1], batch, turns[1], empty_s);
    return is_whole();
  }

  bool measure_empty(std::vector<double>* seconds) {
    for (uint32_t i = 0; i < kEmptyCount; ++i) {
      if (end_signal() != 0 || !fronts_[0].commit_nothing()) {
        return false;
      }
      seconds->push_back(fronts_[0].last_seconds());
    }
    return true;
  }

  bool slice(BenchFront& front, uint32_t batch, Turn* turn) {
    const Meter before(cluster_);
    while (seconds_since(before.at) < kSliceS) {
      if (end_signal() != 0 || !front.update(batch)) {
        return false;
      }
      turn->updates += batch;
      ++batch_count_;
    }
    turn->add(before, Meter(cluster_));
    return true;
  }

  static void print(const BenchFront& front, uint32_t batch, const Turn& turn, double empty_s) {
    const double ours_s = turn.primary_s + turn.standby_s + turn.here_s;
    const double processors = std::max(1U, std::thread::hardware_concurrency());
    const double others = std::max(0.0, turn.machine_s - ours_s) / (turn.elapsed_s * processors);
    const double us = 1e6 / static_cast<double>(turn.updates);
    print_format(
        "turn: batch=%u side=%s updates=%llu seconds=%.4f p50_ms=%.4f empty_ms=%.4f primary_us=%.2f standby_us=%.2f "
        "front_us=%.2f others=%.3f\n",
        batch, front.name().c_str(), static_cast<unsigned long long>(turn.updates), front.seconds(),
        1e3 * median_of(front.verdict_seconds()), 1e3 * empty_s, turn.primary_s * us, turn.standby_s * us,
        front.processor_s() * us, others);
    flush_output();
  }

  // Both fronts' sums are in the engine, and a standby had to have them.
  bool is_whole() const {
    const std::string sums = cluster_.ask_primary("SELECT count(*) FROM gradstream.partial");
    const std::string standbys =
        cluster_.ask_primary("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'");
    if (sums != std::to_string(batch_count_) || standbys != "1") {
      std::fprintf(stderr, "gradstream-engine-bench: error: %s sums of %llu are there, with %s synchronous standbys\n",
                   sums.c_str(), static_cast<unsigned long long>(batch_count_), standbys.c_str());
      return false;
    }
    return true;
  }

  const BenchOptions options_;
  const PostgresCluster& cluster_;
  EngineCommitter engine_;
  BareCommitter bare_;
  std::array<BenchFront, 2> fronts_;
  uint32_t version_ = 0;
  uint64_t batch_count_ = 0;  // with sums, in the open version
};

int run_bench(const BenchOptions& options) {
  if (const std::string why = PostgresCluster::why_absent(); !why.empty()) {
    std::fprintf(stderr, "gradstream-engine-bench: error: %s\n", why.c_str());
    return 1;
  }
  const PostgresCluster cluster("", ".");  // on the disk of the build: the other may be in memory
  std::string fault = cluster.fault();
  if (fault.empty()) {
    fault = init_engine(cluster.primary(), kCallMs).sentence;
  }
  if (fault.empty()) {
    fault = add_engine_run(cluster.primary(), kRun, kCallMs).sentence;
  }
  if (!fault.empty()) {
    std::fprintf(stderr, "gradstream-engine-bench: error: %s\n", fault.c_str());
    return 1;
  }
  print_format("servers: release=%s devices=%u\n",
               PgSession(cluster.primary()).ask("SELECT current_setting('server_version')").c_str(), 2 * kDeviceCount);
  flush_output();
  return EngineBench(options, cluster).run() ? 0 : 1;
}

int run_program(int argc, char** argv) {
  BenchOptions options;
  CLI::App app("An engine on PostgreSQL beside a bare loop of libpq, in the current folder.");
  app.add_option("--batch", options.batches, "devices of a batch")->check(CLI::Range(1U, kBatchMax))->delimiter(',');
  app.add_option("--rounds", options.round_count, "turns of each front with each batch")->check(CLI::Range(1U, 1000U));
  app.add_option("--seconds", options.turn_s, "of a turn")->check(CLI::Range(0.1, 600.0));
  CLI11_PARSE(app, argc, argv);
  SignalPlan plan;
  plan.grace_ms = kEndGraceMs;
  if (!catch_signals(plan)) {
    std::fprintf(stderr, "gradstream-engine-bench: error: signals cannot be caught\n");
    return 1;
  }
  return run_bench(options);
}

}  // namespace
}  // namespace gradstream

int main(int argc, char** argv) {
  gradstream::open_standard_files();
  return gradstream::finish_output("gradstream-engine-bench", gradstream::run_program(argc, argv));
}
