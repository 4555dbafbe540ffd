// A PostgreSQL primary and its synchronous standby for one test program, in a folder for temporary files, on free ports
// of 127.0.0.1. The servers are children of the test and end with it, however it ends. They run as another user where
// the test is root, since PostgreSQL refuses root.
#ifndef GRADSTREAM_TESTS_SUPPORT_POSTGRES_CLUSTER_H_
#define GRADSTREAM_TESTS_SUPPORT_POSTGRES_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

struct pg_conn;

namespace gradstream {

// One connection that waits for each answer.
class PgSession {
 public:
  explicit PgSession(const std::string& server);
  ~PgSession();
  PgSession(const PgSession&) = delete;
  PgSession& operator=(const PgSession&) = delete;
  bool is_connected() const;
  // The first value of the last result; empty: there is none, or an error.
  std::string ask(const std::string& statements);

 private:
  pg_conn* connection_;
};

class PostgresCluster {
 public:
  // Why no test can run here; empty: one can.
  static std::string why_absent();
  PostgresCluster();
  ~PostgresCluster();
  PostgresCluster(const PostgresCluster&) = delete;
  PostgresCluster& operator=(const PostgresCluster&) = delete;

  // What went wrong with its start; empty: both servers run, and the standby is synchronous.
  const std::string& fault() const { return fault_; }
  std::string primary() const { return server_of(primary_); }
  std::string standby() const { return server_of(standby_); }
  // Both, of which libpq takes the one that can be written.
  std::string both() const;
  uint16_t primary_port() const { return primary_.port; }
  std::string ask_primary(const std::string& statements) const { return PgSession(primary()).ask(statements); }
  // Until the primary gives this answer.
  bool wait_for(const std::string& question, const std::string& answer) const;

  void set_standby_names(const std::string& names);  // returns when new connections see them
  void end_standby();
  void start_standby();    // returns when it is synchronous again, if there is a primary
  void kill_primary();     // SIGKILL to all of its processes
  void promote_standby();  // returns when it can be written

 private:
  struct Server {
    std::string folder;
    uint16_t port = 0;
    pid_t pid = 0;
  };
  static std::string server_of(const Server& server);
  void make();
  bool run(const std::vector<std::string>& words) const;
  pid_t begin(const std::vector<std::string>& words, const std::string& log) const;
  bool start(Server* server) const;
  void end(Server* server, int signal) const;

  std::string folder_;
  std::string fault_;
  Server primary_, standby_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_POSTGRES_CLUSTER_H_
