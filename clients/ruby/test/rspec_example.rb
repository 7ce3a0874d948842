require "campanile/rspec"

# testing_test.rb runs it.
RSpec.describe "the matchers" do
  it "find what was sent" do
    Campanile.notify("alice", title: "Ready")
    expect("alice").to have_been_notified(title: /Rea/)
    expect("bob").not_to have_been_notified
  end

  it "see what a block sends" do
    expect { Campanile.notify("alice", title: "Ready") }.to notify("alice", title: "Ready")
    expect { Campanile.notify("alice", title: "Ready") }.not_to notify("bob")
  end

  it "tell what was sent when they fail" do
    Campanile.notify("alice", title: "Ready")
    expect { expect("alice").to have_been_notified(title: "Steady") }.to raise_error(RSpec::Expectations::ExpectationNotMetError, /title: "Ready"/)
  end

  it "begin with nothing" do
    expect(Campanile::Testing.sent).to be_empty
  end
end
