// The one text of a run's parameters, and what is made of it: the digest by which server, store and devices agree that
// they mean the same run. No byte of it may change for a run that is stored.
#ifndef GRADSTREAM_SERVER_RUN_CANONICAL_TEXT_H_
#define GRADSTREAM_SERVER_RUN_CANONICAL_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/run/run_parameters.h"

namespace gradstream {

// Canonical text, one `key = value` line for each field in a fixed order: what is stored, shown and hashed.
std::string canonical_text(const RunParameters& parameters);
// 64-bit FNV-1a of the lines of canonical_text() that differ from those of RunParameters(). A release that adds a field
// gives it a default that means what runs without it did: digests of stored runs and of devices stay what they were.
// run_nonce: what was drawn for this run, so that one of the same parameters on another server has another digest. 0: a
// run of a release that drew none, whose digest is that of its parameters alone.
uint64_t parameters_digest(const RunParameters& parameters, uint64_t run_nonce);
// Names of the keys in which two canonical texts differ. A key that one of them lacks stands there with its default.
std::vector<std::string> differing_keys(const std::string& a, const std::string& b);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_RUN_CANONICAL_TEXT_H_
