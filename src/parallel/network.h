// Names and addresses of hosts.
#pragma once

#include <string>

namespace hone::parallel {

std::string host_name();                 // of this machine, as gethostname has it
bool resolves(const std::string& host);  // a name or an address
// This machine's address on the way to `host`; empty when there is no way. Sends nothing.
std::string address_towards(const std::string& host);
bool is_loopback(const std::string& address);  // 127.x, ::1
// The kernel, and the namespaces of processes and of the network: ranks with the same one reach each other on 127.0.0.1.
std::string machine_name();

}  // namespace hone::parallel
