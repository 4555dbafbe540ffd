// Where the fleet is that a verb of `device` or `claim` looks at or changes: in server.database, or in an engine.
//
//   verb --open()--> FleetHome --database()--> verb looks, changes, writes key files --commit()--> FleetHome
//   --what came of it--> verb prints, or removes its files
//
// A verb works on a SqliteDatabase in both cases. Beside an engine it is a copy in memory, which commit() brings back.
#ifndef GRADSTREAM_SERVER_PROGRAM_FLEET_HOME_H_
#define GRADSTREAM_SERVER_PROGRAM_FLEET_HOME_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "server/program/commands.h"

namespace gradstream {

enum class FleetUse : uint8_t { kLook, kChange, kMake };  // kMake: a change that makes a database where there is none

// What came of a change. kExitOk: it is durable. Else an error is printed already, or the verb is called once more.
struct FleetCommit {
  int code = kExitOk;
  // The change may count, although nobody knows: what belongs to it, such as the file with a key, has to stay.
  bool may_count = false;
};

class FleetHome {
 public:
  explicit FleetHome(CommonOptions options) : options_(std::move(options)) {}
  virtual ~FleetHome() = default;
  FleetHome(const FleetHome&) = delete;
  FleetHome& operator=(const FleetHome&) = delete;

  const CommonOptions& options() const { return options_; }
  // From a successful open() on.
  const Config& config() const { return config_; }
  SqliteDatabase& database() { return *database_; }

  // kExitOk, or an error already printed. A verb that writes files does so behind it. Once for each try of a verb.
  virtual int open(FleetUse use) = 0;
  // Of the clock by which windows of keys and claims count: milliseconds since the epoch.
  virtual uint64_t now_ms() const = 0;
  // Behind a change of database(), and before anything of it is printed.
  virtual FleetCommit commit() = 0;
  // Whether it is nodes that serve it. They let nobody in by a claim, and ask no device for a new key.
  virtual bool is_of_nodes() const { return false; }
  // Adds the pair of a verb's output that says where the fleet is.
  virtual void add_place(OutputLine* line) const = 0;

 protected:
  CommonOptions options_;
  Config config_;
  std::unique_ptr<SqliteDatabase> database_;
};

// That of server.database, whose changes count when the database has them. Where the configuration names an engine,
// open() is what beside_engine() gives.
class DatabaseFleet : public FleetHome {
 public:
  DatabaseFleet(const CommonOptions& options, std::function<int()> beside_engine)
      : FleetHome(options), beside_engine_(std::move(beside_engine)) {}

  int open(FleetUse use) override;
  uint64_t now_ms() const override { return wall_clock_ms(); }
  FleetCommit commit() override { return {}; }
  void add_place(OutputLine* line) const override;

 private:
  const std::function<int()> beside_engine_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_FLEET_HOME_H_
