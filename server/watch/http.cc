#include "server/watch/http.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include <sys/stat.h>

#include "runtime/base/text.h"
#include "server/base/listen_address.h"
#include "server/base/log.h"
#include "server/base/ports.h"
#include "server/base/private_file.h"
#include "server/base/text_file.h"

namespace gradstream {

namespace {

constexpr size_t kTokenSizeMin = 16;
constexpr size_t kTokenSizeMax = 200;
constexpr size_t kReadSize = 2048;
// A download has answer_deadline_ms, and a millisecond for so many bytes. Reason: 100 kB/s is a slow mobile link.
constexpr size_t kBytesPerMsMin = 100;
// Headers of every answer. The last line says what a browser may do with a page of this port: fetch from the port, and
// nothing else.
constexpr const char* kFixedHeaders =
    "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

const char* status_phrase(uint32_t status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return lower(x) == lower(y);
  });
}

// In a time that does not tell where they differ.
bool is_same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? '\0' : b[i % b.size()]);
  }
  return difference == 0;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

// A line ends with LF, whether CR stands before it or not (RFC 9112, 2.2). Reason: people type requests into a socket.
//
// The bytes of a request up to the end of the empty line behind its headers; npos: that has not come.
size_t head_size_of(std::string_view request) {
  for (size_t end = request.find('\n'); end != std::string_view::npos; end = request.find('\n', end + 1)) {
    const std::string_view rest = request.substr(end + 1);
    if (rest.starts_with('\n') || rest.starts_with("\r\n")) {
      return end + (rest.front() == '\n' ? 2 : 3);
    }
  }
  return std::string_view::npos;
}

// Cuts the first line off *text, and gives it without its end.
std::string_view take_line(std::string_view* text) {
  std::string_view line = text->substr(0, text->find('\n'));
  text->remove_prefix(std::min(line.size() + 1, text->size()));
  line.remove_suffix(line.ends_with('\r') ? 1 : 0);
  return line;
}

// The value of a header; empty where there is none.
std::string_view header(std::string_view headers, std::string_view name) {
  while (!headers.empty()) {
    const std::string_view line = take_line(&headers);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && equals_ignoring_case(line.substr(0, colon), name)) {
      return trimmed(line.substr(colon + 1));
    }
  }
  return {};
}

// Of a Host, what stands before the port, without the point that ends an absolute name.
std::string_view name_of_host(std::string_view host) {
  const bool is_bracketed = host.starts_with('[');
  std::string_view name = host.substr(0, is_bracketed ? host.find(']') + 1 : host.rfind(':'));
  name.remove_suffix(name.ends_with('.') ? 1 : 0);
  return name;
}

// A target in absolute form (RFC 9112, 3.2.2): *host becomes its own, and *target what stands behind it. False: it has
// another form. A name of a user before the host is none that this port takes.
bool split_absolute(std::string_view* target, std::string_view* host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (equals_ignoring_case(target->substr(0, scheme.size()), scheme)) {
      const std::string_view rest = target->substr(scheme.size());
      *host = rest.substr(0, rest.find_first_of("/?"));
      *target = rest.substr(host->size());
      return host->find('@') == std::string_view::npos;
    }
  }
  return false;
}

bool is_clean_path(std::string_view path) {
  const auto is_plain = [](char c) { return c > ' ' && c <= '~' && c != '%' && c != '\\'; };
  return path.starts_with('/') && std::all_of(path.begin(), path.end(), is_plain) &&
         path.find("..") == std::string_view::npos;
}

HttpResponse refused_with(uint32_t status, std::string sentence) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(sentence) + "\n";
  return response;
}

}  // namespace

// What is read of a request's line and headers.
struct HttpServer::Request {
  std::string_view method;
  HttpTarget target;
  std::string_view host;
  std::string_view headers;
};

const char* http_refusal_text(HttpRefusal refusal) {
  switch (refusal) {
    case HttpRefusal::kMalformed:
      return "malformed";
    case HttpRefusal::kOversize:
      return "oversize";
    case HttpRefusal::kMethod:
      return "method";
    case HttpRefusal::kPath:
      return "path";
    case HttpRefusal::kNotFound:
      return "not_found";
    case HttpRefusal::kToken:
      return "token";
    case HttpRefusal::kHost:
      return "host";
    case HttpRefusal::kSlowRequest:
      return "slow_request";
    case HttpRefusal::kSlowAnswer:
      return "slow_answer";
    case HttpRefusal::kOverCap:
      return "over_cap";
    case HttpRefusal::kCount:
      break;
  }
  return "unknown";
}

Objection read_token(const std::string& path, std::string* out) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return "server.http_token_file " + path + " cannot be read: " + std::strerror(errno) +
           "; make it with (umask 077; openssl rand -hex 32 > " + path + ")";
  }
  if (is_read_by_others(path)) {
    return "server.http_token_file " + path + " can be read by others; chmod 600 " + path;
  }
  constexpr uint64_t kFileSizeMax = 4096;  // the line may stand among comments of a page, and no more
  std::string text;
  if (const Objection problem = read_text_file(path, kFileSizeMax, &text)) {
    return "server.http_token_file " + path + " " + problem.sentence + "; the server's user must own it (chown)";
  }
  const bool is_read = !text.empty();
  std::string_view token = std::string_view(text).substr(0, text.find('\n'));
  token.remove_prefix(token.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
  *out = trim(token);
  const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
  if (!is_read || out->size() < kTokenSizeMin || out->size() > kTokenSizeMax ||
      !std::all_of(out->begin(), out->end(), is_plain)) {
    return "server.http_token_file " + path +
           ": expected one line of 16 to 200 printable ASCII characters, such as "
           "openssl rand -hex 32 prints";
  }
  return {};
}

// ---- One connection ------------------------------------------------------------------------------------------------

class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpServer& server, uint64_t id, Tcp::socket socket, const Tcp::endpoint& peer)
      : server_(server), id_(id), peer_(text_of(peer)), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  void start() {
    arm(server_.limits_.request_deadline_ms, HttpRefusal::kSlowRequest);
    read();
  }
  void end() {
    ErrorCode ignored;
    socket_.close(ignored);
    timer_.cancel();
    server_.connections_.erase(id_);
  }
  const std::string& peer() const { return peer_; }

 private:
  void arm(uint32_t deadline_ms, HttpRefusal refusal) {
    timer_.expires_after(std::chrono::milliseconds(deadline_ms));
    timer_.async_wait([self = shared_from_this(), refusal](const ErrorCode& cancelled) {
      if (!cancelled && self->socket_.is_open()) {
        self->server_.refuse(refusal, self->peer_);
        self->end();
      }
    });
  }

  void read() {
    socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](const ErrorCode& error, size_t size) {
      if (error) {
        self->end();
      } else if (!self->is_answered_) {
        self->on_bytes(size);
      } else {
        self->read();  // what it still sends is not looked at: until it closes, or the deadline
      }
    });
  }

  void on_bytes(size_t size) {
    request_.append(chunk_.data(), size);
    const size_t end = head_size_of(request_);
    const size_t head_size = std::min(end, request_.size());
    if (request_[0] < 'A' || request_[0] > 'Z') {  // no method; a TLS client waits for an answer
      server_.refuse(HttpRefusal::kMalformed, peer_);
      write(refused_with(400, "no HTTP/1.1 request; devices connect to server.listen"), false);
    } else if (head_size > server_.limits_.request_size_max) {
      server_.refuse(HttpRefusal::kOversize, peer_);
      write(refused_with(431, "the request is longer than server.limits.http_request_size_max"), false);
    } else if (end == std::string::npos) {
      read();
    } else {
      bool is_head = false;
      const HttpResponse response = server_.answer(std::string_view(request_).substr(0, head_size), peer_, &is_head);
      write(response, is_head);
    }
  }

  void write(const HttpResponse& response, bool is_head) {
    is_answered_ = true;
    request_.clear();
    shared_ = is_head ? nullptr : response.shared_body;
    const size_t size = response.shared_body == nullptr ? response.body.size() : response.shared_body->size();
    const size_t extra_ms = response.shared_body == nullptr ? 0 : size / kBytesPerMsMin;
    arm(server_.limits_.answer_deadline_ms + static_cast<uint32_t>(extra_ms), HttpRefusal::kSlowAnswer);
    out_ =
        "HTTP/1.1 " + std::to_string(response.status) + " " + status_phrase(response.status) +
        "\r\nContent-Type: " + response.type + "\r\nContent-Length: " + std::to_string(size) +
        (response.file_name.empty() ? ""
                                    : "\r\nContent-Disposition: attachment; filename=\"" + response.file_name + "\"") +
        "\r\n" + kFixedHeaders + (response.status == 401 ? "WWW-Authenticate: Bearer realm=\"gradstream\"\r\n" : "") +
        (response.status == 405 ? "Allow: GET, HEAD\r\n" : "") + "\r\n" + (is_head ? "" : response.body);
    const std::string_view shared = shared_ == nullptr ? std::string_view() : std::string_view(*shared_);
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(out_), asio::buffer(shared)};
    asio::async_write(socket_, buffers, [self = shared_from_this()](const ErrorCode& error, size_t) {
      if (error) {
        self->end();
        return;
      }
      // A close with bytes unread would reset the connection, and the peer lose what was said.
      ErrorCode ignored;
      self->socket_.shutdown(Tcp::socket::shutdown_send, ignored);
      self->read();
    });
  }

  HttpServer& server_;
  const uint64_t id_;
  const std::string peer_;
  Tcp::socket socket_;
  SteadyTimer timer_;
  std::array<char, kReadSize> chunk_ = {};
  std::string request_;
  std::string out_;
  std::shared_ptr<const std::string> shared_;  // what follows out_
  bool is_answered_ = false;
};

// ---- The server ----------------------------------------------------------------------------------------------------

HttpServer::HttpServer(const HttpLimits& limits, std::string token, Handler handler, IsPublic is_public)
    : limits_(limits),
      token_(std::move(token)),
      handler_(std::move(handler)),
      is_public_(is_public),
      io_(1),
      acceptor_(io_),
      accept_retry_(io_) {}

HttpServer::~HttpServer() { stop(); }

Objection HttpServer::start(const Tcp::endpoint& endpoint) {
  Objection problem = open_acceptor(endpoint, "server.http_listen", &acceptor_);
  if (problem) {
    return problem;
  }
  ErrorCode ignored;
  port_ = acceptor_.local_endpoint(ignored).port();
  accept();
  thread_ = std::thread([this] { io_.run(); });
  return {};
}

void HttpServer::set_token(std::string token) {
  asio::post(io_, [this, token = std::move(token)] { token_ = token; });
}

void HttpServer::stop() {
  if (!thread_.joinable()) {
    return;
  }
  asio::post(io_, [this] {
    ErrorCode ignored;
    acceptor_.close(ignored);
    accept_retry_.cancel();
    while (!connections_.empty()) {
      const auto connection = connections_.begin()->second;
      connection->end();
    }
  });
  thread_.join();  // the loop ends when the last cancelled wait has returned
}

void HttpServer::accept() {
  acceptor_.async_accept(accepted_peer_,
                         [this](const ErrorCode& error, Tcp::socket socket) { on_accepted(error, std::move(socket)); });
}

void HttpServer::on_accepted(const ErrorCode& error, Tcp::socket socket) {
  if (!acceptor_.is_open()) {
    return;
  }
  if (error) {
    accept_retry_.expires_after(kAcceptRetry);
    accept_retry_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) {
        accept();
      }
    });
    return;
  }
  if (connections_.size() >= limits_.connection_count_max) {
    const auto oldest = connections_.begin()->second;
    refuse(HttpRefusal::kOverCap, oldest->peer());
    oldest->end();
  }
  const uint64_t id = next_id_++;
  const auto connection = std::make_shared<Connection>(*this, id, std::move(socket), accepted_peer_);
  connections_[id] = connection;
  connection->start();
  accept();
}

void HttpServer::refuse(HttpRefusal refusal, const std::string& peer) {
  const uint64_t count = ++counters_.refusals[static_cast<size_t>(refusal)];
  if (!is_log_due(&refusal_logged_ms_)) {
    return;
  }
  log_event("http_refused"_event,
            Fields().add("reason", http_refusal_text(refusal)).add("peer", peer).add("count", count));
}

// A Host that only this machine can mean, or one that the operator has named.
bool HttpServer::is_allowed_host(std::string_view host) const {
  const std::string_view name = name_of_host(host);
  return name == "127.0.0.1" || name == "[::1]" || equals_ignoring_case(name, "localhost") ||
         std::any_of(hosts_.begin(), hosts_.end(),
                     [&](const std::string& known) { return equals_ignoring_case(name, name_of_host(known)); });
}

// Token and host. False: *out says why not.
bool HttpServer::may_pass(const Request& request, const std::string& peer, HttpResponse* out) {
  if (token_.empty()) {
    if (is_allowed_host(request.host)) {
      return true;
    }
    refuse(HttpRefusal::kHost, peer);
    *out = refused_with(403,
                        "without server.http_token_file the Host must be 127.0.0.1, [::1], localhost or one of "
                        "server.http_hosts");
    return false;
  }
  if (is_public_ != nullptr && is_public_(request.target.path)) {
    return true;
  }
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view given = header(request.headers, "Authorization");
  if (given.size() > kScheme.size() && equals_ignoring_case(given.substr(0, kScheme.size()), kScheme) &&
      is_same_secret(trimmed(given.substr(kScheme.size())), token_)) {
    return true;
  }
  refuse(HttpRefusal::kToken, peer);
  *out = refused_with(401, given.empty() ? "send Authorization: Bearer TOKEN, the line of server.http_token_file"
                                         : "the token is not the line of server.http_token_file");
  return false;
}

HttpResponse HttpServer::answer(std::string_view head, const std::string& peer, bool* is_head) {
  std::string_view headers = head;
  const std::string_view line = take_line(&headers);
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !line.substr(last + 1).starts_with("HTTP/1.")) {
    refuse(HttpRefusal::kMalformed, peer);
    return refused_with(400, "no HTTP/1.1 request; devices connect to server.listen");
  }
  std::string_view text = line.substr(first + 1, last - first - 1);
  Request request = {line.substr(0, first), {}, header(headers, "Host"), headers};
  const bool is_absolute = split_absolute(&text, &request.host);
  const size_t question = text.find('?');
  const bool is_root = is_absolute && (text.empty() || question == 0);  // "http://host" asks for "/"
  request.target = {is_root ? "/" : text.substr(0, question),
                    question == std::string_view::npos ? std::string_view() : text.substr(question + 1)};
  HttpResponse response;
  if (!may_pass(request, peer, &response)) {
    return response;
  }
  *is_head = request.method == "HEAD";
  if (request.method != "GET" && !*is_head) {
    refuse(HttpRefusal::kMethod, peer);
    return refused_with(405, "only GET and HEAD: this port changes nothing");
  }
  const std::string_view length = header(headers, "Content-Length");
  if ((!length.empty() && length != "0") || !header(headers, "Transfer-Encoding").empty()) {
    refuse(HttpRefusal::kOversize, peer);
    return refused_with(431, "a request with a body: none is taken");
  }
  if (!is_clean_path(request.target.path)) {
    refuse(HttpRefusal::kPath, peer);
    return refused_with(400, "no such form of path here");
  }
  response = handler_(request.target);
  if (response.status == 404) {
    refuse(HttpRefusal::kNotFound, peer);
    if (response.body.empty()) {
      response.body =
          "no such path; there are /, /metrics, /healthz, /readyz, /status, /status/devices, /status/runs and "
          "/status/model.npz\n";
    }
  } else {
    ++counters_.requests;
  }
  return response;
}

}  // namespace gradstream
