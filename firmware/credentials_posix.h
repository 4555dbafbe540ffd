// By what a Linux client proves who it is: an identity, or a certificate of the device CA.
#ifndef GRADSTREAM_FIRMWARE_CREDENTIALS_POSIX_H_
#define GRADSTREAM_FIRMWARE_CREDENTIALS_POSIX_H_

#include <string>
#include <vector>

#include "runtime/link/certificate.h"

namespace gradstream {

// Reads the identity's text, and finds its name. 0, or the exit status: the reason is logged.
int load_identity(const std::string& path, std::vector<char>* text, std::string* name);

struct CertificateFiles {  // PEM
  std::string authority;
  std::string certificate;
  std::string key;
  std::string server_name;  // empty: the host's
};

struct Certificate {
  Credentials credentials;
  std::string server_name;
};

// *text is the identity that stands for the certificate where names are asked for; its key is no secret. 0, or the exit
// status: the reason is logged.
int load_certificate(const CertificateFiles& files, const std::string& host, Certificate* out, std::vector<char>* text,
                     std::string* name);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_CREDENTIALS_POSIX_H_
