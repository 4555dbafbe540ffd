#include "tests/support/postgres_cluster.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gradstream {
namespace {

constexpr char kReleases[] = "/usr/lib/postgresql";  // a folder for each
constexpr int kReleaseMin = 15;
constexpr auto kWaitMost = std::chrono::seconds(60);  // on a machine with much else to do
constexpr int kLookPauseMs = 10;                      // between two looks at what another process does
constexpr int kPortMin = 10240;                       // below it services have ports of their own
constexpr int kPortEnd = 65536;
constexpr int kPortTriesMax = 1000;  // draws of a port, of which nearly each is free

// Whom the servers run as, where the program is root.
const passwd* server_user() {
  const passwd* user = getpwnam("postgres");
  return user != nullptr ? user : getpwnam("nobody");
}

// Of the newest release that is installed; empty: there is none.
std::string program_folder() {
  int newest = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kReleases, error)) {
    if (std::filesystem::exists(entry.path() / "bin/postgres")) {
      newest = std::max(newest, std::atoi(entry.path().filename().c_str()));
    }
  }
  return newest < kReleaseMin ? "" : std::string(kReleases) + "/" + std::to_string(newest) + "/bin/";
}

bool look_until(const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + kWaitMost;
  while (std::chrono::steady_clock::now() < end) {
    if (is_so()) {
      return true;
    }
    poll(nullptr, 0, kLookPauseMs);
  }
  return false;
}

bool is_free(uint16_t port) {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool is_bound = bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(probe);
  return is_bound;
}

// Whether no other process has claimed the port, as tools/fleet.py does: by the name of a socket, which stays open
// until this process ends.
bool claim(uint16_t port) {
  const int holder = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  const int size = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gradstream-port-%u", unsigned{port});
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(size));
  const bool is_claimed = bind(holder, reinterpret_cast<sockaddr*>(&name), length) == 0;
  if (!is_claimed) {
    close(holder);
  }
  return is_claimed;
}

// A port of 127.0.0.1 that is this process's alone; 0: there is none. It lies below those that the kernel hands out.
// Reason: the servers come to their ports seconds later, and once more after each end.
uint16_t free_port() {
  int end = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> end;
  end = end > kPortMin ? end : kPortEnd;  // a machine that hands out nearly all has none to keep apart
  std::random_device draw;
  for (int i = 0; i < kPortTriesMax; ++i) {
    const auto port = static_cast<uint16_t>(std::uniform_int_distribution<int>(kPortMin, end - 1)(draw));
    if (is_free(port) && claim(port)) {
      return port;
    }
  }
  return 0;
}

// In the child of a fork.
[[noreturn]] void become(const std::vector<std::string>& words, const std::string& log) {
  const int file = open(log.c_str(), O_CREAT | O_APPEND | O_WRONLY, 0644);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  if (geteuid() == 0) {
    const passwd* user = server_user();
    if (setgroups(0, nullptr) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0) {
      _exit(126);
    }
  }
  if (chdir("/") != 0) {  // that of the test may be closed to this user
    _exit(126);
  }
  prctl(PR_SET_PDEATHSIG, SIGQUIT);  // PostgreSQL ends at once by it
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

// ---- One connection ----

PgSession::PgSession(const std::string& server) : connection_(PQconnectdb(server.c_str())) {}

PgSession::~PgSession() { PQfinish(connection_); }

bool PgSession::is_connected() const { return PQstatus(connection_) == CONNECTION_OK; }

std::string PgSession::ask(const std::string& statements) {
  PGresult* const result = PQexec(connection_, statements.c_str());
  std::string value;
  if (PQntuples(result) > 0 && PQnfields(result) > 0) {
    value = PQgetvalue(result, 0, 0);
  }
  PQclear(result);
  return value;
}

// ---- Processes ----

std::string PostgresCluster::why_absent() {
  if (program_folder().empty()) {
    return "PostgreSQL " + std::to_string(kReleaseMin) + " or newer is not installed (./run setup)";
  }
  if (geteuid() == 0 && server_user() == nullptr) {
    return "there is no user postgres or nobody for PostgreSQL, which refuses root";
  }
  return {};
}

pid_t PostgresCluster::begin(const std::vector<std::string>& words, const std::string& log) const {
  const pid_t pid = fork();
  if (pid == 0) {
    become(words, log);
  }
  return pid;
}

bool PostgresCluster::run(const std::vector<std::string>& words) const {
  const pid_t pid = begin(words, folder_ + "/tools.log");
  int status = 1;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

bool PostgresCluster::start(Server* server) const {
  server->pid = begin({program_folder() + "postgres", "-D", server->folder, "-p", std::to_string(server->port)},
                      server->folder + ".log");
  return server->pid > 0 && look_until([server] { return !PgSession(server_of(*server)).ask("SELECT 1").empty(); });
}

void PostgresCluster::end(Server* server, int signal) const {
  if (server->pid > 0) {
    kill(server->pid, signal);
    waitpid(server->pid, nullptr, 0);
    server->pid = 0;
  }
}

// ---- The cluster ----

std::string PostgresCluster::server_of(const Server& server) {
  return "host=127.0.0.1 port=" + std::to_string(server.port) + " user=gs dbname=postgres connect_timeout=10";
}

std::string PostgresCluster::both() const {
  return "host=127.0.0.1,127.0.0.1 port=" + std::to_string(primary_.port) + "," + std::to_string(standby_.port) +
         " user=gs dbname=postgres target_session_attrs=read-write";
}

PostgresCluster::PostgresCluster(const std::string& settings, const std::string& parent) {
  std::string name = (parent.empty() ? std::filesystem::temp_directory_path() : std::filesystem::absolute(parent)) /
                     "postgres_cluster_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    fault_ = "no folder can be made";
    return;
  }
  folder_ = name;
  make(settings);
  if (!fault_.empty()) {
    std::ifstream log(folder_ + "/tools.log");
    std::stringstream words;
    words << log.rdbuf();
    fault_ += ": " + words.str();
  }
}

PostgresCluster::~PostgresCluster() {
  end(&standby_, SIGQUIT);
  end(&primary_, SIGQUIT);
  if (!folder_.empty()) {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
}

void PostgresCluster::make(const std::string& settings) {
  if (geteuid() == 0 && chown(folder_.c_str(), server_user()->pw_uid, server_user()->pw_gid) != 0) {
    fault_ = "its folder cannot be given away";
    return;
  }
  primary_ = {folder_ + "/a", free_port(), 0};
  standby_ = {folder_ + "/b", free_port(), 0};
  if (primary_.port == 0 || standby_.port == 0) {
    fault_ = "no port of 127.0.0.1 is free";
    return;
  }
  const std::string programs = program_folder();
  if (!run({programs + "initdb", "-D", primary_.folder, "-A", "trust", "-U", "gs", "--no-sync", "--locale=C", "-E",
            "UTF8"})) {
    fault_ = "initdb failed";
    return;
  }
  std::ofstream(primary_.folder + "/postgresql.conf", std::ios::app)
      << "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_wal_senders = 4\n"
         "synchronous_standby_names = '*'\n"
      << settings;
  if (!start(&primary_)) {
    fault_ = "the primary does not start";
  } else if (!run({programs + "pg_basebackup", "-h", "127.0.0.1", "-p", std::to_string(primary_.port), "-U", "gs", "-D",
                   standby_.folder, "-R", "-X", "stream", "-c", "fast", "--no-sync"})) {
    fault_ = "the standby cannot be copied";
  } else {
    start_standby();
  }
}

bool PostgresCluster::wait_for(const std::string& question, const std::string& answer) const {
  return look_until([&] { return ask_primary(question) == answer; });
}

void PostgresCluster::set_standby_names(const std::string& names) {
  // A change of the settings writes nothing to the log, so it does not wait for the standby.
  ask_primary("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'");
  ask_primary("SELECT pg_reload_conf()");
  wait_for("SELECT current_setting('synchronous_standby_names')", names);
}

void PostgresCluster::end_standby() { end(&standby_, SIGINT); }

void PostgresCluster::start_standby() {
  const std::string sees = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
  if (!start(&standby_) || (primary_.pid > 0 && !wait_for(sees, "1"))) {
    fault_ = "the standby does not start";
  }
}

void PostgresCluster::kill_primary() {
  std::istringstream pids(
      ask_primary("SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE pid <> pg_backend_pid()"));
  const pid_t postmaster = primary_.pid;
  end(&primary_, SIGKILL);
  for (pid_t pid = 0; pids >> pid;) {
    if (pid != postmaster) {
      kill(pid, SIGKILL);
    }
  }
}

void PostgresCluster::promote_standby() { PgSession(standby()).ask("SELECT pg_promote(true, 30)"); }

}  // namespace gradstream
