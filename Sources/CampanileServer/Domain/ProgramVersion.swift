/// The version of this program: what `campanile --version` says, and `campanile nodes` of each node.
package enum ProgramVersion {
    package static let current = "0.1.0"
}
