import Testing

@testable import CampanileServer

@Suite struct UntestedLibraryTests {
    @Test(
        "the log says that the HTTP library is of another version than the tested one, and nothing of the tested one",
        arguments: [(nil, 0), ("1.0.1", 1)])
    func untested(version: String?, count: Int) {
        let log = KeptLog()
        App.tell(untestedLibrary: version, log.logger)
        #expect(log.count("warning Campanile wasn't tested with this version of libmicrohttpd.") == count)
    }
}
