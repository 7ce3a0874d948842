# Signs stream names as turbo-rails does, with ActiveSupport's own MessageVerifier.
#
#     ruby sign.rb key KEY NAME…                 the key as it stands in config.turbo.signed_stream_verifier_key
#     ruby sign.rb secret_key_base SECRET NAME…  the key that Rails 7 and later derive
#     ruby sign.rb older SECRET NAME…            the key that Rails derived before
#
# Rails derives with ActiveSupport::KeyGenerator, 1,000 iterations, SHA256, 64 bytes. Debian's ActiveSupport is older and
# its KeyGenerator knows SHA1 alone, so that for the first the same call to OpenSSL is made here.
require "active_support"
require "active_support/key_generator"
require "active_support/message_verifier"
require "json"
require "openssl"

kind, secret, *names = ARGV
key = case kind
      when "key" then secret
      when "secret_key_base"
        OpenSSL::PKCS5.pbkdf2_hmac(secret, "turbo/signed_stream_verifier_key", 1000, 64, OpenSSL::Digest::SHA256.new)
      when "older"
        ActiveSupport::KeyGenerator.new(secret, iterations: 1000).generate_key("turbo/signed_stream_verifier_key")
      else abort "sign.rb: key, secret_key_base or older"
      end
verifier = ActiveSupport::MessageVerifier.new(key, digest: "SHA256", serializer: JSON)
names.each { |name| puts verifier.generate(name) }
